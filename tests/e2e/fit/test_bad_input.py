"""Bad input of the commands on trained nets: one line that names it, no traceback, and nothing half-written."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import cv2
import numpy as np
import pytest

from mxtrain.core.errors import DATA, USAGE
from tests.support.commands import Command

RESULT = "result"  # what a command would write, in the test's folder


class Case(NamedTuple):
    """A command, of whose words {run} and the like are filled in, its exit code, and what it has to say."""

    line: str
    code: int
    said: str


EXPORTS = ("onnx", "symbol", "int8")
# {damaged}: a run each of whose checkpoints has another byte; {others}: records of other classes than the net's.
CASES = {
    **{
        f"damaged checkpoint: {name}": Case(line, DATA, "damaged, it is not what manifest.json says")
        for name, line in {
            "evaluate": "evaluate {damaged}",
            "graph": "evaluate {damaged} --graph --picture {result}.svg",
            "predict": "predict {damaged} {picture} --out {result}",
            "convert": "convert {damaged} {result}.npz --to torch",
            **{to: f"export {{damaged}} --to {to} --out {{result}}" for to in EXPORTS},
        }.items()
    },
    "damaged checkpoint: prune": Case(
        "fit --prune 0.5 --pretrained {damaged} --model small_cnn --train {data}/train.rec --val {data}/val.rec "
        "--image-size 32 --out {result}", DATA, "holds no whole checkpoint",
    ),
    "damaged state_dict": Case("convert {safetensors} {result}", DATA, "not a whole safetensors file"),
    "no weights": Case("convert {picture} {result}", DATA, "holds no weights that are read here; give a .safet"),
    "damaged npz": Case("convert {npz} {result} --model resnet18_v1b", DATA, "not a whole .npz file"),
    "damaged params": Case("convert {params} {result} --model resnet18_v1b", DATA, "not a whole file of MXNet"),
    "damaged prototxt": Case("convert {prototxt} {result}.yaml", DATA, "solver.prototxt:1:"),
    **{
        f"no run: {name}": Case(line, USAGE, "nothing-there")
        for name, line in {
            "evaluate": "evaluate nothing-there",
            "graph": "evaluate nothing-there --graph",
            "predict": "predict nothing-there {folder}/nothing.png",
            "export": "export nothing-there --to onnx --out {result}",
            "convert": "convert nothing-there {result}.npz --to torch",
        }.items()
    },
    **{
        f"other classes: {name}": Case(line, DATA, "its class 0 is 'a', the net's is 'eight'")
        for name, line in {
            "evaluate": "evaluate {run} --val {others}",
            "mistakes": "predict {run} {others} --mistakes 3 --out {result}",
            **{to: f"export {{run}} --to {to} --val {{others}} --out {{result}}" for to in EXPORTS},
        }.items()
    },
    **{
        f"not written: {name}": Case(line, USAGE, "{text}")
        for name, line in {
            "picture": "evaluate {run} --graph --picture {text}/net.svg",
            "onnx of graph": "evaluate {run} --graph --onnx {text}/net.onnx",
            "predict": "predict {run} {picture} --out {text}/answers",
            "mistakes": "predict {run} --mistakes 3 --mistakes-out {text}",
            "tune": "tune --config {config} --space {space} --out {text}/search --trials 1",
            **{to: f"export {{run}} --to {to} --out {{text}}/export" for to in EXPORTS},
        }.items()
    },
    "not an export's folder": Case("export {run} --to symbol --out {data}", USAGE, "holds other files than an export"),
    "a search in a run": Case("tune --config {config} --space {space} --out {run} --trials 1", USAGE, "a run folder"),
    "an unknown flag in a space": Case(
        "tune --config {config} --space {bad_space} --out {result} --trials 1", USAGE, "unknown flag 'nosuch'"
    ),
    "no records to compare with": Case("export {run} --to onnx --val {text} --out {result}", DATA, "RecordIO file"),
    "a net too small for its picture": Case("evaluate vgg16 --graph --image-size 8", USAGE, "does not take pictures"),
    "no tolerance": Case("export {run} --to int8 --tolerance nan --out {result}", USAGE, "--tolerance nan: give"),
    "not a torch net": Case("convert {run} {result}.npz --to torch", USAGE, "torchvision and timm have no net"),
}  # fmt: skip
# One of each kind in CI; the others take the same way.
FAST = (
    "damaged checkpoint: onnx", "damaged checkpoint: predict", "damaged npz", "damaged prototxt", "no run: predict",
    "no run: graph", "other classes: int8", "other classes: mistakes", "not written: symbol", "not written: tune",
    "a search in a run", "not an export's folder",
)  # fmt: skip

COLD = ("damaged prototxt",)  # as a user starts it; the others are in a process that has mxnet already


@pytest.fixture(scope="module")
def given(
    trained_digits: Path, digits: Path, tmp_path_factory: pytest.TempPathFactory, command: Command
) -> dict[str, Any]:
    """What the words in braces stand for."""
    folder = tmp_path_factory.mktemp("bad-input")
    shutil.copytree(trained_digits, folder / "damaged")
    for path in (folder / "damaged" / "checkpoints").glob("*/weights.params"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 255
        path.write_bytes(content)
    for name in "abc":
        (folder / "images" / name).mkdir(parents=True)
        for number in range(4):
            cv2.imwrite(str(folder / "images" / name / f"{number}.png"), np.full((8, 8, 3), number, np.uint8))
    done = command("tools.im2rec_wrapper", "pack", folder / "images", folder / "records", "--split", 0.5)
    assert done.returncode == 0, done.stderr
    files = {
        "text": "hello", "safetensors": "hello", "npz": "hello", "params": "hello", "prototxt": "net {",
        "space": "lr: [0.1, 0.2]", "bad_space": "nosuch: [1, 2]",
        "config": f"train: {digits}/train.rec\nval: {digits}/val.rec\nmodel: small_cnn\n",
    }  # fmt: skip
    names = {
        "safetensors": "net.safetensors", "npz": "net.npz", "params": "net.params", "prototxt": "solver.prototxt",
        "config": "base.yaml",
    }  # fmt: skip
    paths = {name: folder / names.get(name, name) for name in files}
    for name, text in files.items():
        paths[name].write_text(text)
    picture = next((digits / "images" / "seven").iterdir())
    others = folder / "records" / "val.rec"
    return {
        **paths, "folder": folder, "damaged": folder / "damaged", "run": trained_digits, "data": digits,
        "others": others, "picture": picture,
    }  # fmt: skip


@pytest.mark.parametrize(
    "name", [each if each in FAST else pytest.param(each, marks=pytest.mark.slow) for each in CASES]
)
def test_it_is_named_in_a_line_and_nothing_is_left(
    name: str, given: dict[str, Any], tmp_path: Path, command: Command
) -> None:
    case, values = CASES[name], {**given, "result": tmp_path / RESULT}
    before = {path: path.stat().st_mtime_ns for path in given["data"].iterdir()}
    module, *words = case.line.format(**values).split()
    done = command(f"mxtrain.{module}", *words, cold=name in COLD)
    assert done.returncode == case.code, done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"mxtrain.{module}: ") and case.said.format(**values) in last
    left = [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and path.name != ".lock" and "logs" not in path.parts
    ]
    assert left == [], "nothing half-written stays"
    assert {path: path.stat().st_mtime_ns for path in given["data"].iterdir()} == before


@pytest.mark.slow  # test_export.py names an operator, test_layer_table.py a net without a graph
@pytest.mark.parametrize(
    ("net", "refused"),
    [
        ("correlated", {"onnx": "Correlation (layer "}),
        ("plain", dict.fromkeys(EXPORTS, "cannot be traced into a graph")),
    ],
)
def test_a_net_without_a_translation_is_named_with_its_layer(
    net: str, refused: dict[str, str], digits: Path, tmp_path: Path, command: Command
) -> None:
    flags = (
        "--image-size 16 --val-resize 16 --augment none --batch-size 64 --max-steps 2 --epochs 1 --log none"
    )
    data = ["--train", digits / "train.rec", "--val", digits / "val.rec", "--out", tmp_path / "run"]
    done = command("mxtrain.fit", *data, *flags.split(), "--model", f"tests.support.nets.hostile_nets:{net}")
    assert done.returncode == 0, done.stderr
    for to in EXPORTS:
        done = command("mxtrain.export", tmp_path / "run", "--to", to)
        assert done.returncode == (USAGE if to in refused else 0), done.stderr
        assert refused.get(to, "") in done.stderr and "Traceback" not in done.stderr
        assert [path.name for path in (tmp_path / "run" / "export").glob("*")].count(to) == (
            to not in refused
        )
