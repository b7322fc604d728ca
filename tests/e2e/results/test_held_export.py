"""`--hold layers` of export: the whole net's files and answers, with one weight, or two segments, in memory."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from mxtrain.core.errors import UsageError
from mxtrain.export import Export, export, exporting
from mxtrain.export.symbol_export import PARAMS, SYMBOL
from tests.support.breadth import slow_cases
from tests.support.commands import Command
from tests.support.processes import peak_memory
from tests.tasks.data import steps

ROOT = Path(__file__).resolve().parents[3]
LM = ["--task", "lm", "--window", "32", "--batch-size", "1", "--max-steps", "1", "--log", "none"]


def trained(folder: Path, command: Command, *flags: str) -> Path:
    done = command("mxtrain.fit", *LM, *flags, "--out", folder, timeout=200)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pictures_run(digits: Path, tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    out = tmp_path_factory.mktemp("held") / "run"
    data = ["--train", digits / "train.rec", "--val", digits / "val.rec", "--max-steps", "3", "--log", "none"]
    net = ["--model", "small_cnn", "--image-size", "16", "--val-resize", "16", "--threads", "1"]
    done = command("mxtrain.fit", *data, *net, "--out", out)
    assert done.returncode == 0, done.stderr
    return out


def both(run: Path, out: Path, to: str, **options: bool) -> tuple[Export, Export]:
    """The exports that read one weight at a time, and all of them."""
    held, whole = (
        export(run, to=to, hold=hold, out=out / to / hold, samples=8, **options) for hold in ("layers", "all")
    )
    return held, whole


@pytest.mark.parametrize("from_pixels", [True, *slow_cases(False)])
def test_files_for_mxnet_are_those_of_the_whole_net(
    pictures_run: Path, tmp_path: Path, from_pixels: bool
) -> None:
    held, whole = both(pictures_run, tmp_path, "symbol", from_pixels=from_pixels)
    assert held.files == whole.files and held.differences.absolute == 0
    assert held.differences.samples == whole.differences.samples
    for name in (SYMBOL, PARAMS):
        assert (held.folder / name).read_bytes() == (whole.folder / name).read_bytes()


@pytest.mark.parametrize("from_pixels", [False, True])
def test_an_onnx_has_the_same_weights_beside_it(
    pictures_run: Path, tmp_path: Path, from_pixels: bool
) -> None:
    onnx = pytest.importorskip("onnx")
    held, whole = both(pictures_run, tmp_path, "onnx", from_pixels=from_pixels)
    assert held.files == [whole.files[0], "net.onnx.data", *whole.files[1:]]
    beside, inside = (onnx.load(str(each.folder / "net.onnx")) for each in (held, whole))
    assert beside.graph.node == inside.graph.node
    for ours, theirs in zip(beside.graph.initializer, inside.graph.initializer):
        assert ours.name == theirs.name
        np.testing.assert_array_equal(*map(onnx.numpy_helper.to_array, (ours, theirs)))
    size = (held.folder / "net.onnx").stat().st_size
    assert size < 100_000 < (held.folder / "net.onnx.data").stat().st_size


def test_what_takes_the_whole_net_is_refused(pictures_run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--hold layers: does not go with --to int8"):
        export(pictures_run, to="int8", hold="layers")
    with pytest.raises(UsageError, match="--hold half: unknown"):
        export(pictures_run, to="onnx", hold="half")
    path = tmp_path / "weights.params"
    with path.open("wb") as file:
        file.truncate(1 << 42)
    with pytest.raises(UsageError, match=r"17,592,186 MB.*--hold layers reads them one by one"):
        exporting.refuse_too_large(path, "onnx")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_large_net_is_exported_in_a_third_of_its_memory(tmp_path: Path, command: Command) -> None:
    """A GPT of 85M beside a small one. What onnxruntime maps of a file counts too, and goes where room is short."""
    steps.write(tmp_path, 40, 8)
    data = ["--train", str(tmp_path / "train.rec"), "--val", str(tmp_path / "val.rec")]
    held = ["--hold", "layers", "--optimizer", "sgd:momentum=0"]
    large = trained(tmp_path / "large", command, *data, *held, "--model", "gpt_85m")
    small = trained(tmp_path / "small", command, *data, "--model", "gpt:layers=2,heads=2,width=64")
    (weights,) = large.glob("checkpoints/*/weights.params")
    size = weights.stat().st_size / 2**20
    for to, mapped in (("symbol", 0.0), ("onnx", size)):
        line = [sys.executable, "-m", "mxtrain.export", "--to", to, "--hold", "layers", "--samples", "1"]
        peaks = [peak_memory.peak([*line, "--run", run], cwd=ROOT) for run in (large, small)]
        assert peaks[0] - mapped < peaks[1] + size / 3, (to, peaks, size)
