"""Pictures that are not square: every crop and change makes the size that is asked for, of the right part."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from mxtrain import config
from mxtrain.config.checks import bounds, run_checks
from mxtrain.config.components.augmentations import CHANGES
from mxtrain.config.values import sizes
from mxtrain.config.values.sizes import Size
from mxtrain.core.errors import UsageError
from mxtrain.data.augment import crops, mixup
from mxtrain.data.augment.transforms import eval_transform, train_transform
from mxtrain.data.decode import decoding, pixel_cache
from mxtrain.data.image_fields import resize_of
from mxtrain.data.records.record_file import open_records
from mxtrain.data.records.record_writer import RecordWriter
from tests.support.data.pictures import jpeg, picture

HIGH, WIDE = Size(24, 40), Size(40, 24)


def ramp(height: int, width: int) -> np.ndarray:
    """A picture whose red says how far down a pixel is, and whose green how far right, from 0 to 255."""
    down, right = np.mgrid[:height, :width]
    planes = [down * 255 / (height - 1), right * 255 / (width - 1), np.zeros((height, width))]
    return np.stack(planes, axis=2).round().astype(np.uint8)


def png(image: np.ndarray) -> bytes:
    return cv2.imencode(".png", image[:, :, ::-1])[1].tobytes()


def made(augment: str, size: Size, payload: object, seed: int = 0) -> np.ndarray:
    out = np.full((3, *size), 7, np.uint8)
    train_transform(augment, str(size))(payload, np.random.default_rng(seed), out)
    return out.transpose(1, 2, 0)


@pytest.mark.parametrize("size", [HIGH, WIDE], ids=str)
@pytest.mark.parametrize("crop", ["none", "pad_crop:pad=2", "resized_crop"])
@pytest.mark.parametrize("change", ["", *(f"+{name}" for name in CHANGES)])
def test_every_augmentation_makes_pictures_of_that_size(size: Size, crop: str, change: str) -> None:
    colours = picture(0, 60, 90)
    transform = train_transform(crop + change, str(size))
    for payload in (jpeg(colours), png(colours), colours):
        for seed in range(3):
            floats, bytes_ = np.full((3, *size), np.nan, np.float32), np.zeros((3, *size), np.uint8)
            transform(payload, np.random.default_rng(seed), floats)
            transform(payload, np.random.default_rng(seed), bytes_)
            mean, std = (np.reshape(each, (3, 1, 1)) for each in (transform.mean, transform.std))
            np.testing.assert_allclose(floats, (bytes_ / 255 - mean) / std, atol=1e-5)


@pytest.mark.parametrize("size", [Size(32, 32), Size(57, 57)], ids=str)
def test_a_square_said_either_way_is_the_same(size: Size) -> None:
    for augment in ("pad_crop:pad=2+flip", "resized_crop+randaugment"):
        outs = np.zeros((2, 3, *size), np.float32)
        for given, out in zip((size.height, str(size)), outs):
            train_transform(augment, given)(jpeg(picture(0, 60, 90)), np.random.default_rng(0), out)
        np.testing.assert_array_equal(*outs)


def test_the_centre_crop_takes_the_largest_box_of_that_shape() -> None:
    found = made("none", Size(20, 40), png(ramp(200, 200)))  # the rows from 50 to 150
    assert found[0, 0, 0] == pytest.approx(50 / 200 * 255, abs=4)
    assert found[-1, 0, 0] == pytest.approx(150 / 200 * 255, abs=4)
    assert found[0, 0, 1] <= 3 and found[0, -1, 1] >= 252
    tall = made("none", Size(40, 20), png(ramp(200, 200)))
    assert (tall[0, 0, 1], tall[0, -1, 1]) == (pytest.approx(64, abs=4), pytest.approx(191, abs=4))
    assert tall[0, 0, 0] <= 3 and tall[-1, 0, 0] >= 252


def test_evaluations_scale_the_short_side_and_cut_the_middle() -> None:
    out = np.zeros((3, 24, 48), np.float32)
    eval_transform("24x48", 32, (0, 0, 0), (1, 1, 1))(png(ramp(320, 640)), None, out)
    # 32 x 64 of all, of which the middle is an eighth from each side
    np.testing.assert_allclose(out[0, [0, -1], 0], [4 / 32, 28 / 32], atol=0.02)
    np.testing.assert_allclose(out[1, 0, [0, -1]], [8 / 64, 56 / 64], atol=0.02)
    with pytest.raises(UsageError, match="--val-resize 20 is below --image-size 24x48; give 24 or more"):
        eval_transform("24x48", 20)


def test_a_resized_crop_of_the_whole_distorts_nothing() -> None:
    whole = "resized_crop:scale_min=1,scale_max=1,ratio_min=1,ratio_max=1"
    found = made(whole, Size(20, 40), png(ramp(100, 200)))
    np.testing.assert_allclose(found, ramp(20, 40), atol=8)


def test_boxes_have_the_shape_of_the_target_on_average() -> None:
    """Their ratio is drawn about that of the net's pictures, and not about 1."""
    seen: list[float] = []

    def note(payload: object, choose: object, size: Size) -> np.ndarray:
        box = choose(400, 400)  # type: ignore[operator]
        seen.append(np.log(box.width / box.height))
        return np.zeros((*size, 3), np.uint8)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "decode_resized", note)
        rng = np.random.default_rng(0)
        for _ in range(300):
            crops.resized_crop(
                b"", rng, Size(20, 40), scale_min=0.1, scale_max=0.3, ratio_min=3 / 4, ratio_max=4 / 3
            )
    assert np.mean(seen) == pytest.approx(np.log(2), abs=0.03)
    assert np.log(2 * 0.74) < min(seen) and max(seen) < np.log(2 * 1.36)


@pytest.mark.parametrize("shape", [(60, 90), (90, 60), (50, 300), (300, 50), (1, 9), (2, 2)])
@pytest.mark.parametrize("size", [HIGH, WIDE, Size(1, 30), Size(30, 1)], ids=str)
def test_pictures_of_any_shape_fit(shape: tuple[int, int], size: Size) -> None:
    for crop in ("none", "pad_crop:pad=3", "resized_crop"):
        assert made(crop, size, picture(1, *shape)).shape == (*size, 3)
    high, wide = crops.largest_within(*shape, size)
    assert 1 <= high <= shape[0] and 1 <= wide <= shape[1] and (high == shape[0] or wide == shape[1])


def test_a_cache_gives_the_pixels_that_decoding_gives(tmp_path: Path) -> None:
    with RecordWriter(tmp_path / "a.rec") as writer:
        for key in range(4):
            writer.write(key, float(key), jpeg(picture(key, 300, 500)))
    records = open_records(tmp_path / "a.rec")
    data = config.Data(cache="ram", image_size="32x64")
    cached = pixel_cache.with_cache(data, records, tmp_path)
    for position in range(4):
        for augment in ("none", "resized_crop"):
            both = [made(augment, Size(32, 64), each.read(position).payload) for each in (records, cached)]
            np.testing.assert_array_equal(*both)


def test_a_cache_keeps_rows_of_labels(tmp_path: Path) -> None:
    rows = np.array([[0, 1, -1], [1, 1, 0]], np.float32)
    with RecordWriter(tmp_path / "a.rec") as writer:
        for key, row in enumerate(rows):
            writer.write(key, row, jpeg(picture(key)))
    for kind in ("ram", "disk"):
        cached = pixel_cache.with_cache(config.Data(cache=kind), open_records(tmp_path / "a.rec"), tmp_path)
        np.testing.assert_array_equal([cached.read(k).label for k in range(2)], rows)
        np.testing.assert_array_equal(cached.labels(), rows)


def test_a_box_of_another_picture_covers_the_share_it_says() -> None:
    data = np.zeros((2, 3, 20, 60), np.float32)
    data[1] = 1
    mixed = mixup.mix(data, np.array([0.0, 1.0]), 0, 0, seed=5, mixup=0, cutmix=1)
    assert mixed is not None
    share = data[0].mean()
    assert min(share, 1 - share) == pytest.approx(mixed.fraction[0], abs=1e-6)


def test_a_size_is_kept_in_one_way(tmp_path: Path) -> None:
    of = {
        text: config.parse(["--image-size", text]).data.image_size
        for text in ("24", "24x24", "024x24", "24x32")
    }
    assert of == {"24": 24, "24x24": 24, "024x24": 24, "24x32": "24x32"}
    assert config.from_flat({"image_size": "32x32"}).data.image_size == 32
    assert sizes.height_and_width("24x32") == (24, 32) and sizes.height_and_width(24) == (24, 24)
    assert resize_of(config.Data(image_size="70x140")) == 80
    for size in ("24x32", 24):
        (tmp_path / "run.yaml").write_text(config.to_yaml(config.from_flat({"image_size": size})))
        assert config.read(tmp_path / "run.yaml").data.image_size == size
    assert config.parse(["--config", str(tmp_path / "run.yaml"), "--image-size", "030"]).data.image_size == 30


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("24*32", r"--image-size 24\*32: give a whole number for squares, or HEIGHTxWIDTH, as in 224x320"),
        ("24x", "--image-size 24x: give a whole number"),
        ("24x32x3", "give a whole number"),
        ("2.5", r"--image-size 2\.5: give a whole number"),
        ("32x0", "--image-size 32x0: give 1 or more"),
        ("32x5000", "--image-size 32x5000: give 4096 or less"),
        ("-24", "--image-size -24: give a whole number"),
        ("0x32", "--image-size 0x32: give 1 or more"),  # the number 50 to YAML
        ("1_0", "--image-size 1_0: give a whole number"),  # and 10
        ("1:30", "--image-size 1:30: give a whole number"),  # and 90
    ],
)
def test_what_is_no_size_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(f"image_size: {text}\n")
    for flags in ([f"--image-size={text}"], ["--config", str(tmp_path / "run.yaml")]):
        with pytest.raises(UsageError, match=message):
            bounds.check(config.parse(flags))


def test_no_size_is_what_is_left_out() -> None:
    assert config.parse(["--image-size", "0"]) == config.parse([])


def test_the_short_side_bounds_the_resize() -> None:
    run = config.parse(["--train", "t.rec", "--image-size", "64x32", "--val-resize", "30"])
    with pytest.raises(UsageError, match="--val-resize 30 is below --image-size 64x32; give 32 or more"):
        run_checks.check_description(run)
    run_checks.check_description(
        config.parse(["--train", "t.rec", "--image-size", "64x32", "--val-resize", "32"])
    )
