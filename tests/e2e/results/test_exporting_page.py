"""docs/exporting.md: its programs run, and its server's config is of what is exported."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.commands import ROOT, Command

onnxruntime = pytest.importorskip("onnxruntime")
PAGE = (ROOT / "docs" / "exporting.md").read_text()


def block(holds: str, kind: str = "") -> str:
    """The block of code of the page that holds these words."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (found,) = (text for label, text in blocks if label == kind and holds in text)
    return str(found)


def exported(run: Path, out: Path, command: Command, *flags: str) -> Path:
    done = command("mxtrain.export", run, *flags, "--out", out, "--samples", 4)
    assert done.returncode == 0, done.stderr
    return out


def test_the_programs_for_onnxruntime_and_a_server(
    trained_digits: Path, digits: Path, tmp_path: Path, command: Command
) -> None:
    flags = "--to", "onnx", "--dynamic-batch", "--from-pixels"
    folder = exported(trained_digits, tmp_path / "out", command, *flags)
    shutil.copy(folder / "net.onnx", tmp_path)
    (tmp_path / "name.py").write_text(block("onnxruntime.InferenceSession", "python"))
    picture = sorted((digits / "images" / "three").iterdir())[3]
    ran = subprocess.run(
        [sys.executable, "name.py", str(picture)], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert ran.stdout.strip() == "three", ran.stderr
    # The server's, which is for float32.
    config = block("max_batch_size")
    kinds = {"tensor(float)": "TYPE_FP32", "tensor(uint8)": "TYPE_UINT8"}
    session = onnxruntime.InferenceSession(str(folder / "net.onnx"))
    (taken,), (given,) = session.get_inputs(), session.get_outputs()
    assert taken.shape[0] == given.shape[0] == "batch"
    assert kinds[taken.type] in PAGE
    expected = [
        (taken.name, "TYPE_FP32", list(taken.shape[1:])),
        (given.name, kinds[given.type], list(given.shape[1:])),
    ]
    found = re.findall(r'name: "(\w+)" data_type: (\w+) dims: \[ ([\d, ]+) \]', config)
    assert [(name, kind, list(map(int, dims.split(",")))) for name, kind, dims in found] == expected
    assert (folder / "classes.txt").read_text().count("\n") == given.shape[1]


@pytest.mark.slow
@pytest.mark.skipif(np.__version__ >= "2", reason="a plain mxnet does not import beside NumPy 2")
def test_the_programs_for_mxnet(trained_digits: Path, tmp_path: Path, command: Command) -> None:
    """tests/engine/export/test_export.py compares SymbolBlock and Module with the net, by a fast test."""
    folder = exported(trained_digits, tmp_path / "out", command, "--to", "symbol")
    in_python = block("SymbolBlock.imports", "python").replace("mx.nd.zeros(", "0.5 + mx.nd.zeros(")
    (folder / "answer.py").write_text(
        f"import numpy\nnumpy.bool = bool\n{in_python}\nprint(*scores.asnumpy()[0], *same.asnumpy()[0])\n"
    )
    ran = subprocess.run(
        [sys.executable, "answer.py"], cwd=folder, capture_output=True, text=True, timeout=100
    )
    assert ran.returncode == 0, ran.stderr
    of_block, of_module = np.array(ran.stdout.split(), float).reshape(2, 10)
    np.testing.assert_allclose(of_module, of_block, rtol=1e-4, atol=1e-5)

    if shutil.which("g++") is None:
        pytest.skip("no C++ compiler")
    spec = importlib.util.find_spec("mxnet")
    assert spec is not None and spec.submodule_search_locations
    (folder / "answer.cc").write_text(block("MXPredCreate", "cpp"))
    line = block("g++").splitlines()[1].replace("$M", spec.submodule_search_locations[0]).split()
    subprocess.run(line, cwd=folder, check=True, timeout=100)
    ran = subprocess.run(["./answer"], cwd=folder, capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    np.testing.assert_allclose(np.array(ran.stdout.split(), float), of_block, rtol=1e-4, atol=1e-5)
