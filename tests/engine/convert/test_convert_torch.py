"""Nets from torch and back: every key and shape is torch's own, and what comes back is what went in, to the bit.

Outputs are compared with torch's, where torch can be had, in `tests/e2e/results/test_convert_with_torch.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from mxtrain.checkpoint import directory
from mxtrain.convert import convert
from mxtrain.convert.torch import state_dict, torch_names, torch_weights
from mxtrain.core.errors import DataError, UsageError
from mxtrain.core.params_file import Arrays
from mxtrain.predict import predict
from tests.support.commands import Command
from tests.support.nets import torch_nets

# One of a family; all others are slow.
FEW = {
    "resnet18_v1b",
    "torchvision/mobilenet_v2",
    "torchvision/mobilenet_v3_small",
    "timm/mobilenetv3_small_100",
    "torchvision/vgg11_bn",
    "resnet18_v1",
}


def written(path: Path, arrays: Arrays) -> Path:
    with state_dict.write_aside(path, arrays):
        pass
    return path


@pytest.mark.parametrize(
    "model",
    [model if model in FEW else pytest.param(model, marks=pytest.mark.slow) for model in torch_names.KNOWN],
)
def test_keys_and_shapes_are_torchs_own(model: str) -> None:
    weights = {name: np.zeros(shape, np.float32) for name, shape in torch_nets.shapes(model).items()}
    for scheme in torch_names.SCHEMES:
        name = torch_names.name_there(model, scheme)
        if not name:
            continue
        found = torch_weights.give(model, scheme, weights)
        assert torch_nets.digest(found) == torch_nets.golden()[f"{scheme}/{name}"]
        recognised = torch_names.recognised({key: array.shape for key, array in found.items()})
        assert recognised is not None
        there = torch_names.name_there(recognised[0], recognised[1])
        assert name in (there, torch_names.name_there(recognised[0], scheme))


def test_all_names_are_in_the_golden_file() -> None:
    names = {
        f"{scheme}/{torch_names.name_there(model, scheme)}"
        for model in torch_names.KNOWN
        for scheme in torch_names.SCHEMES
        if torch_names.name_there(model, scheme)
    }
    assert names == {*torch_nets.golden()}


@pytest.fixture(scope="module")
def resnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state_dict of a resnet18 of ten classes."""
    folder = tmp_path_factory.mktemp("torch")
    return written(
        folder / "resnet18.safetensors", torch_nets.state_dict("resnet18_v1b", "torchvision", 10, 32)
    )


def test_there_and_back_on_digits(resnet: Path, digits: Path, tmp_path: Path, command: Command) -> None:
    names = sorted(path.name for path in (digits / "images").iterdir())
    (tmp_path / "names.txt").write_text("\n".join(names) + "\n")
    flags = ["--classes", tmp_path / "names.txt", "--image-size", 32]
    done = command("mxtrain.convert", resnet, tmp_path / "one", *flags)
    assert done.returncode == 0, done.stderr
    assert "resnet18 of torchvision" in done.stdout and "resnet18_v1b, 10 classes" in done.stdout
    there = convert(tmp_path / "one", tmp_path / "back.npz", to="torch", names="timm")
    assert there["model"] == "timm/resnet18" and there["num_arrays"] == 122
    with np.load(tmp_path / "back.npz") as back:
        before = state_dict.read(resnet)
        assert {*before} == {name for name in back.files if "num_batches" not in name}
        assert all((back[name] == stored.read()).all() for name, stored in before.items())
    convert(tmp_path / "back.npz", tmp_path / "two", classes=tmp_path / "names.txt", image_size=32)
    checkpoints = [directory.newest(tmp_path / run / "checkpoints") for run in ("one", "two")]
    one, two = ((each.path / "weights.params").read_bytes() for each in checkpoints if each)
    assert one == two
    assert all(
        each and each.state["micro_batch"] == 16 for each in checkpoints
    )  # as a run of 64 samples a step has
    scores = json.loads(
        command("mxtrain.evaluate", tmp_path / "one", "--val", digits / "val.rec", "--json").stdout
    )
    assert (
        0 <= scores["val_accuracy"] <= 1 and scores["num_samples"] == 179 and scores["class_names"] == names
    )
    (told,) = predict(tmp_path / "two", next((digits / "images" / "seven").iterdir()))
    assert {each["class"] for each in told["classes"]} == {*names}


def test_fit_takes_the_weights_and_does_not_resume(
    resnet: Path, shapes: Path, tmp_path: Path, command: Command
) -> None:
    convert(resnet, tmp_path / "net", image_size=32)
    flags = ["--train", shapes / "train.rec", "--model", "resnet18_v1b", "--image-size", 32, "--max-steps", 1]
    flags += ["--batch-size", 8, "--log", "none"]
    done = command("mxtrain.fit", *flags, "--pretrained", tmp_path / "net", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert (
        "100 of 102 parameters taken" in done.stderr
        and "fc.weight ((10, 512) there, (2, 512) here)" in done.stderr
    )
    done = command("mxtrain.fit", *flags, "--out", tmp_path / "net")
    assert done.returncode == 2 and "holds weights that were converted, and no run to resume" in done.stderr


def test_a_net_of_fewer_channels_fits_none_of_torchs(
    resnet: Path, shapes: Path, tmp_path: Path, command: Command
) -> None:
    convert(resnet, tmp_path / "net", image_size=32)
    flags = ["--train", shapes / "train.rec", "--model", "resnet18_v1b", "--image-size", 32, "--max-steps", 1]
    prune = ["--pretrained", tmp_path / "net", "--prune", 0.9, "--out", tmp_path / "run"]
    done = command("mxtrain.fit", *flags, "--batch-size", 2, "--log", "none", *prune)
    assert done.returncode == 0, done.stderr
    with pytest.raises(UsageError, match="fewer channels than torchvision's resnet18, as --prune took"):
        convert(tmp_path / "run", tmp_path / "net.npz", to="torch")
    assert not (tmp_path / "net.npz").exists()


def test_a_head_of_another_class_count_is_kept_out(resnet: Path, tmp_path: Path) -> None:
    (tmp_path / "two.txt").write_text("cat\ndog\n")
    with pytest.raises(DataError, match=r"two.txt: has 2 names, the net 10 classes; .*--drop-head"):
        convert(resnet, tmp_path / "net", classes=tmp_path / "two.txt", image_size=32)
    with pytest.raises(UsageError, match=r"--drop-head: .* give an OUT that ends in \.params"):
        convert(resnet, tmp_path / "net", drop_head=True, image_size=32)
    done = convert(resnet, tmp_path / "body.params", drop_head=True, image_size=32)
    assert done["num_classes"] == 0 and done["num_arrays"] == 100
    assert not (tmp_path / "net").exists()


def test_a_half_made_conversion_is_repeated_and_a_run_is_not_replaced(
    resnet: Path, tmp_path: Path, trained_digits: Path
) -> None:
    (tmp_path / "net" / "checkpoints" / ".writing-step-00000000").mkdir(parents=True)
    for _ in range(2):
        convert(resnet, tmp_path / "net", image_size=32)
    assert [each.name for each in (tmp_path / "net" / "checkpoints").iterdir()] == ["step-00000000"]
    with pytest.raises(UsageError, match="holds a run or other files"):
        convert(resnet, trained_digits, image_size=32)
    assert directory.newest(trained_digits / "checkpoints") is not None


def test_keys_that_do_not_fit_are_named_on_both_sides(resnet: Path, tmp_path: Path) -> None:
    arrays = {name: stored.read() for name, stored in state_dict.read(resnet).items()}

    def refusal(**changed: object) -> str:
        after = {**arrays, **changed}
        kept = {name.replace("__", "."): array for name, array in after.items() if array is not None}
        path = written(tmp_path / "changed.npz", kept)  # type: ignore[arg-type]
        with pytest.raises(DataError) as refused:
            convert(path, tmp_path / "net", image_size=32)
        assert "changed.npz" in str(refused.value) and not (tmp_path / "net").exists()
        return str(refused.value)

    gone = {"layer2.0.bn1.weight": None, "layer2.0.bn1.weigth": arrays["layer2.0.bn1.weight"]}
    said = refusal(**gone)
    assert "no 'layer2.0.bn1.weight' for its parameter 'layer2.0.bn1.gamma'" in said
    assert "did you mean 'layer2.0.bn1.weigth'" in said
    said = refusal(extra__weight=np.ones((3, 3), np.float32))
    assert "it has no parameter for 'extra.weight' (3, 3)" in said
    said = refusal(**{"layer2.0.conv1.weight": np.ones((128, 64, 5, 5), np.float32)})
    assert (
        "'layer2.0.conv1.weight' is (128, 64, 5, 5), its parameter 'layer2.0.conv1.weight' (128, 64, 3, 3)"
        in said
    )
    bad = arrays["layer3.1.conv2.weight"].copy()
    bad[0, 0, 0, 0] = np.inf
    assert "'layer3.1.conv2.weight' holds numbers that are not finite" in refusal(
        **{"layer3.1.conv2.weight": bad}
    )
    other = {name.replace("layer1.0.conv1", "block.attention"): array for name, array in arrays.items()}
    said = refusal(**{**other, "layer1.0.conv1.weight": None})
    assert "not of a net that is known here" in said and "resnet, wide_resnet" in said


def test_what_torch_has_not_is_said(trained_digits: Path, tmp_path: Path, resnet: Path) -> None:
    with pytest.raises(UsageError, match="no net that computes what --model small_cnn does"):
        convert(trained_digits, tmp_path / "net.npz", to="torch")
    with pytest.raises(UsageError, match=r"ends in \.safetensors or \.npz"):
        convert(trained_digits, tmp_path / "net.pth", to="torch")
    with pytest.raises(UsageError, match="--model resnet50_v2: torchvision and timm have no such net"):
        convert(resnet, tmp_path / "net", model="resnet50_v2")
    vgg = written(tmp_path / "vgg.npz", {"features.0.weight": np.ones((64, 3, 3, 3), np.float32)})
    with pytest.raises(UsageError, match=r"--image-size 256: .* for 224 pixels alone"):
        convert(vgg, tmp_path / "net", model="vgg11", image_size=256)
    with pytest.raises(
        UsageError, match="--names torchvision: has no net that computes what --model resnet50_v1d"
    ):
        convert(resnet, tmp_path / "net", model="resnet50_v1d", names="torchvision", image_size=32)
    with pytest.raises(UsageError, match="--mean auto: there is no training set here"):
        convert(resnet, tmp_path / "net", mean="auto", image_size=32)
    scalar = written(tmp_path / "scalar.npz", {"layer1.0.conv1.weight": np.ones(1), "fc.weight": np.ones(())})
    with pytest.raises(DataError, match=r"scalar\.npz: 'fc\.weight' is a single number"):
        convert(scalar, tmp_path / "net", model="resnet18_v1b", image_size=32)
    assert not (tmp_path / "net.npz").exists() and not (tmp_path / "net").exists()


def test_another_epsilon_is_made_up_for() -> None:
    model = "torchvision/mobilenet_v3_small"
    ours = torch_nets.weights(model)
    theirs = torch_weights.give(model, "timm", ours)
    gamma, variance = ours["features.1.gamma"], ours["features.1.running_var"]
    assert np.allclose(
        theirs["bn1.weight"] / np.sqrt(variance + 1e-5), gamma / np.sqrt(variance + 1e-3), rtol=1e-6
    )
    stored = {
        key: state_dict.Stored(array.shape, lambda array=array: array)  # type: ignore[misc]
        for key, array in theirs.items()
        if "num_batches" not in key
    }
    shapes = {name: array.shape for name, array in ours.items()}
    again = torch_weights.take("x", model, "timm", stored, shapes)
    assert all(np.allclose(again[name], ours[name], rtol=1e-6) for name in ours)
