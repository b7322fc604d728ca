"""Grey pictures, and numbers of one's own to normalise by: what the net sees, and which nets and weights take it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from mxtrain import config
from mxtrain.config.checks import run_checks
from mxtrain.config.components.augmentations import CHANGES
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data import image_fields
from mxtrain.data.augment import normalization
from mxtrain.data.augment.transforms import eval_transform, train_transform
from mxtrain.data.records.record_file import RecordFile, open_records
from mxtrain.data.records.record_writer import RecordWriter
from mxtrain.data.user.user_datasets import UserBatches
from mxtrain.models.contract import of_pictures
from mxtrain.models.nets import zoo
from mxtrain.models.normalize import normalized
from mxtrain.models.parameters import pretrained, weights
from mxtrain.runtime import mx
from tests.support.breadth import slow_cases
from tests.support.data.pictures import jpeg, picture

CPU = [mx.cpu()]
GREY = ((0.4,), (0.3,))


def run_of(*flags: str) -> config.Run:
    return config.parse(["--train", "t.rec", "--image-size", "24x32", *flags])


def write(path: Path, images: list[Any]) -> RecordFile:
    with RecordWriter(path) as writer:
        for key, image in enumerate(images):
            payload = (
                image if isinstance(image, bytes) else cv2.imencode(".png", image[:, :, ::-1])[1].tobytes()
            )
            writer.write(key, float(key % 2), payload)
    return open_records(path)


def test_a_grey_picture_is_the_luma_of_its_colours() -> None:
    image = picture(0, 24, 32)
    out = np.full((1, 24, 32), np.nan, np.float32)
    eval_transform("24x32", 24, *GREY)(image, None, out)
    luma = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    np.testing.assert_allclose(out[0], (luma / 255 - 0.4) / 0.3, atol=1e-5)
    bytes_ = np.zeros((1, 24, 32), np.uint8)
    eval_transform("24x32", 24, *GREY)(image, None, bytes_)
    np.testing.assert_array_equal(bytes_[0], luma)
    grey = np.repeat(luma[:, :, None], 3, axis=2)  # is what it is
    eval_transform("24x32", 24, *GREY)(grey, None, bytes_)
    np.testing.assert_array_equal(bytes_[0], luma)


@pytest.mark.parametrize("change", sorted(set(CHANGES) - {"grayscale", "lighting"}))
def test_changes_see_grey_pictures(change: str) -> None:
    spec = f"pad_crop:pad=2+{change}" + (":brightness=0.4,contrast=0.4" if change == "colour_jitter" else "")
    transform, image = train_transform(spec, "24x32", *GREY), picture(0, 24, 32)
    of_grey = cv2.cvtColor(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
    for seed in range(4):
        outs = np.full((2, 1, 24, 32), np.nan, np.float32)
        for payload, out in zip((image, of_grey), outs):
            transform(payload, np.random.default_rng(seed), out)
        assert np.isfinite(outs).all()
        np.testing.assert_allclose(
            outs[0], outs[1], atol=0.02
        )  # resizing and grey are rounded in another order


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--augment grayscale", "--augment grayscale changes colours, and --channels 1 has none"),
        ("--augment flip+lighting", "--augment lighting changes colours"),
        (
            "--augment colour_jitter:saturation=0.4,hue=0.1",
            "colour_jitter: saturation and hue change colours",
        ),
        ("--augment colour_jitter:saturation=0,hue=0.1", "colour_jitter: hue change"),
        ("--mean 0.5,0.5,0.5", "--mean 0.5,0.5,0.5: 3 numbers for --channels 1"),
        ("--mean half", "--mean half: give imagenet, auto, or numbers joined by commas"),
        ("--deviation 0", "--deviation 0: pixels count from 0 to 1; give numbers from 0.0001"),
        ("--mean 128", None),
        ("--mean 5000", "--mean 5000: pixels count from 0 to 1"),
        ("--channels 2", "--channels 2: give 3 "),
        ("--augment colour_jitter:saturation=0,hue=0 --mean 0.5 --deviation 0.25", None),
    ],
)
def test_what_does_not_go_with_grey_is_refused(flags: str, message: str | None) -> None:
    run = run_of("--channels", "1", *flags.split())
    if message is None:
        run_checks.check_description(run)
        return
    with pytest.raises(UsageError, match=message.replace(".", r"\.")):
        run_checks.check_description(run)


@pytest.mark.parametrize(
    "name",
    [
        "small_cnn",
        "resnet18_v1b",
        "cifar_resnet20_v1",
        *slow_cases("mobilenetv2_1.0", "vgg11", "mobilenet1.0"),
    ],
)
def test_known_nets_take_one_channel(name: str) -> None:
    net = zoo.build(name, 5, channels=1)
    net.initialize(ctx=CPU)
    zoo.compile(net, name, CPU, of_pictures("64x32", 5, channels=1))
    first = next(each for each in weights.named_parameters(net).values() if len(each.shape) == 4)
    assert first.shape[1] == 1
    assert net(mx.nd.zeros((2, 1, 64, 32))).shape == (2, 5)


def own(num_classes: int, channels: int = 3) -> Any:
    return mx.gluon.nn.Conv2D(num_classes, 3, in_channels=channels)


def deaf(num_classes: int) -> Any:
    return own(num_classes)


def test_a_users_function_hears_of_the_channels() -> None:
    assert zoo.build(f"{__name__}:own", 4, channels=1).weight.shape == (4, 1, 3, 3)
    assert zoo.build(f"{__name__}:own", 4).weight.shape == (4, 3, 3, 3)
    with pytest.raises(UsageError, match="deaf: is called with num_classes=4, channels=1, but "):
        zoo.build(f"{__name__}:deaf", 4, channels=1)


def test_weights_of_colours_are_summed_for_grey(tmp_path: Path) -> None:
    nets = {channels: zoo.build("resnet18_v1b", 3, channels) for channels in (3, 1)}
    for channels, net in nets.items():
        net.initialize(ctx=CPU)
        net(mx.nd.zeros((1, channels, 32, 32)))
    nets[3].save_parameters(str(tmp_path / "colours.params"))
    assert "conv1.weight" in pretrained.load(nets[1], tmp_path / "colours.params")
    grey = mx.nd.random.uniform(shape=(2, 1, 32, 32))
    np.testing.assert_allclose(
        nets[1](grey).asnumpy(),
        nets[3](mx.nd.concat(grey, grey, grey, dim=1)).asnumpy(),
        rtol=1e-3,
        atol=1e-4,
    )
    nets[1].save_parameters(str(tmp_path / "grey.params"))
    assert "conv1.weight" not in pretrained.load(nets[3], tmp_path / "grey.params")


@pytest.mark.parametrize("channels", ["1", "3"])
def test_auto_is_the_mean_and_deviation_of_what_evaluations_see(tmp_path: Path, channels: str) -> None:
    images = [picture(seed, 24, 32) // (seed % 3 + 1) for seed in range(8)]
    train = write(tmp_path / "a.rec", [*images, b"no picture"])
    run = run_of("--channels", channels, "--mean", "auto", "--deviation", "auto", "--val-resize", "24")
    found = normalization.described(run, train)
    assert json.loads(json.dumps(found)) == found
    if channels == "1":
        images = [cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)[:, :, None] for image in images]
    pixels = np.stack(images).reshape(-1, int(channels)) / 255
    np.testing.assert_allclose(found["mean"], pixels.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(found["deviation"], pixels.std(axis=0), atol=1e-6)
    out = np.zeros((len(images), *image_fields.shape_of(run.data)), np.float32)
    for row, position in zip(out, range(len(images))):
        image_fields.transform_of(run, found, is_training=False)(train.read(position).payload, None, row)
    np.testing.assert_allclose(out.mean(axis=(0, 2, 3)), 0, atol=1e-4)
    np.testing.assert_allclose(out.std(axis=(0, 2, 3)), 1, atol=1e-4)


def test_what_is_given_is_described_and_imagenets_is_not(tmp_path: Path) -> None:
    train = write(tmp_path / "a.rec", [picture(0, 24, 32)])
    assert normalization.described(run_of(), train) == {}
    assert normalization.described(run_of("--mean", "0.5"), train) == {"mean": [0.5, 0.5, 0.5]}
    numbers = normalization.of_description(run_of().data, {"mean": [0.5, 0.5, 0.5]})
    assert numbers == ((0.5, 0.5, 0.5), normalization.IMAGENET_STD)
    grey = normalization.of_description(run_of("--channels", "1").data, {})
    assert [len(each) for each in grey] == [1, 1] and grey.mean[0] == pytest.approx(0.449, abs=1e-3)


def test_auto_is_refused_where_it_cannot_be_measured(tmp_path: Path) -> None:
    auto = run_of("--mean", "auto", "--deviation", "auto")
    with pytest.raises(DataError, match=r"a\.rec: none of 2 pictures can be read"):
        normalization.described(auto, write(tmp_path / "a.rec", [b"one", b"two"]))
    with pytest.raises(DataError, match="the pixels of a channel are all alike; give --deviation a number"):
        normalization.described(auto, write(tmp_path / "b.rec", [np.full((24, 32, 3), 9, np.uint8)]))
    with pytest.raises(
        UsageError, match="--mean auto: the pictures of --train mine:data are not known beforehand"
    ):
        normalization.described(auto, UserBatches("mine:data", [], 4))


def test_a_device_normalises_by_the_same_numbers() -> None:
    for channels, numbers in ((1, GREY), (3, ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6)))):
        image = jpeg(picture(0, 48, 64))
        host, device = np.zeros((channels, 24, 32), np.float32), np.zeros((channels, 24, 32), np.uint8)
        for out in (host, device):
            eval_transform("24x32", 24, *numbers)(image, None, out)
        found = normalized(mx.nd.array(device[None], dtype="uint8"), normalization.Normalisation(*numbers))
        np.testing.assert_allclose(found.asnumpy()[0], host, atol=1e-5)
