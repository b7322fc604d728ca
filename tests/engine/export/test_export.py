"""`mxtrain.export` on digits: what others load answers as the net does, and nothing is left of what fails."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.fields import Array
from mxtrain.evaluate import evaluate
from mxtrain.export import export, exporting
from mxtrain.export.onnx import onnx_export, onnx_graph, onnx_operators
from mxtrain.export.options import ExportOptions
from mxtrain.inference import trained_run
from mxtrain.predict import predict
from mxtrain.runtime import mx
from tests.support.commands import ROOT, Command

onnxruntime = pytest.importorskip("onnxruntime")


@pytest.fixture
def run(trained_digits: Path, tmp_path: Path) -> Path:
    """A run folder of digits that may be written into."""
    return Path(shutil.copytree(trained_digits, tmp_path / "run"))


def digits_of(folder: Path) -> list[Path]:
    """A picture of each class."""
    return sorted(sorted(of_class.iterdir())[3] for of_class in (folder / "images").iterdir())


def inputs_of(run: Path, paths: list[Path]) -> Array:
    """The pictures as the net takes them."""
    found = trained_run.find_checkpoint(run, None, "cpu")
    task = trained_run.task_of(found, trained_run.run_of(found, {}))
    return np.stack([task.inputs_of(path)["data"] for path in paths])


def pictures_and_scores(run: Path, digits: Path) -> tuple[Array, Array]:
    """A picture of each class, as the net takes it, and what the net says."""
    pictures = inputs_of(run, digits_of(digits))
    found = trained_run.find_checkpoint(run, None, "cpu")
    with trained_run.net_of(found, trained_run.run_of(found, {}), "cpu") as (net, _):
        return pictures, net(mx.nd.array(pictures)).asnumpy()


def softmax(scores: Array) -> Array:
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def test_onnxruntime_says_what_predict_says(run: Path, digits: Path) -> None:
    made = export(run, to="onnx", dynamic_batch=True)
    assert made.folder == run / "export" / "onnx"
    assert sorted(made.files) == sorted(os.listdir(made.folder)) == ["classes.txt", "export.json", "net.onnx"]
    assert made.differences.samples == 64
    assert made.differences.relative < 1e-5
    session = onnxruntime.InferenceSession(str(made.folder / "net.onnx"))
    known = session.get_modelmeta().custom_metadata_map
    assert json.loads(known["classes"]) == (made.folder / "classes.txt").read_text().split()
    paths = digits_of(digits)
    pictures = inputs_of(run, paths)
    assert [each.name for each in (*session.get_inputs(), *session.get_outputs())] == ["data", "output"]
    (scores,) = session.run(None, {"data": pictures})
    (alone,) = session.run(None, {"data": pictures[:1]})
    np.testing.assert_allclose(alone, scores[:1], rtol=1e-4, atol=1e-5)
    for row, told in zip(softmax(scores), predict(run, paths)):
        expected = {each["class"]: each["probability"] for each in told["classes"]}
        found = dict(zip(json.loads(known["classes"]), row))
        assert {name: pytest.approx(share, abs=1e-5) for name, share in found.items()} == expected


def test_an_export_is_scored_as_its_run(run: Path, tmp_path: Path) -> None:
    """But for rounding, as norms are apart in it; alone, and with its run around it."""
    of_run = evaluate(run)
    for to in ("symbol", "onnx"):
        folder = Path(export(run, to=to).folder)
        assert evaluate(folder) == pytest.approx(of_run, rel=1e-5, abs=0)
    with pytest.raises(UsageError, match=r"--checkpoint best: .* is an export, of step"):
        evaluate(folder, checkpoint="best")
    with pytest.raises(UsageError, match="is scored alone"):
        evaluate([folder, run])
    shutil.move(folder, tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="the run that knows its samples and losses is not around it"):
        evaluate(tmp_path / "elsewhere")


def test_the_symbol_has_the_bits_of_the_net_and_runs_in_module(run: Path, digits: Path) -> None:
    made = export(run, to="symbol")
    assert made.differences.absolute == 0
    pictures, expected = pictures_and_scores(run, digits)
    module = mx.mod.Module.load(str(made.folder / "net"), 0, data_names=["data"], label_names=None)
    module.bind([("data", pictures.shape)], for_training=False)
    module.forward(mx.io.DataBatch([mx.nd.array(pictures)]), is_train=False)
    found = module.get_outputs()[0].asnumpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)  # it joins operators


@pytest.mark.slow
@pytest.mark.skipif(np.__version__ >= "2", reason="a plain mxnet does not import beside NumPy 2")
def test_plain_mxnet_computes_the_bits_of_the_net(run: Path, digits: Path, tmp_path: Path) -> None:
    """The test above, by a program without mxtrain."""
    made = export(run, to="symbol")
    pictures, expected = pictures_and_scores(run, digits)
    np.save(tmp_path / "in.npy", pictures)
    words = [str(made.folder), str(tmp_path / "in.npy"), str(tmp_path / "out.npz")]
    program = ROOT / "tests" / "support" / "user_code" / "plain_mxnet.py"
    subprocess.run([sys.executable, str(program), *words], check=True, timeout=100, cwd=tmp_path)
    answered = np.load(tmp_path / "out.npz")
    np.testing.assert_array_equal(answered["block"], expected)
    np.testing.assert_allclose(answered["module"], expected, rtol=1e-4, atol=1e-5)


def test_a_net_of_half_the_channels_is_exported_so_narrow(
    trained_digits: Path, digits: Path, tmp_path: Path, command: Command
) -> None:
    run = tmp_path / "half"
    data = ["--train", digits / "train.rec", "--val", digits / "val.rec", "--out", run, "--log", "none"]
    size = ["--model", "small_cnn", "--image-size", 32, "--val-resize", 32, "--batch-size", 16]
    prune = ["--pretrained", trained_digits, "--prune", 0.5, "--max-steps", 2]
    done = command("mxtrain.fit", *data, *size, *prune)
    assert done.returncode == 0, done.stderr
    pictures, expected = pictures_and_scores(run, digits)
    of_symbol, of_onnx = export(run, to="symbol"), export(run, to="onnx", dynamic_batch=True)

    files = [str(of_symbol.folder / name) for name in ("net-symbol.json", "net-0000.params")]
    assert sum(array.size for array in mx.nd.load(files[1]).values()) == 18_850, "of 73,402"
    block = mx.gluon.SymbolBlock.imports(files[0], ["data"], files[1])
    np.testing.assert_array_equal(block(mx.nd.array(pictures)).asnumpy(), expected)
    (found,) = onnxruntime.InferenceSession(str(of_onnx.folder / "net.onnx")).run(None, {"data": pictures})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_weights_that_are_too_many_for_one_file_lie_beside_it(
    run: Path, digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two gigabytes are; a file of a megabyte stands for them. The usual form is held by the first test here."""
    monkeypatch.setattr(onnx_export, "LARGEST_FILE", 100_000)
    made = export(run, to="onnx", dynamic_batch=True)
    assert {"net.onnx", "net.onnx.data"} <= set(os.listdir(made.folder)) == set(made.files)
    assert (
        (made.folder / "net.onnx").stat().st_size < 100_000 < (made.folder / "net.onnx.data").stat().st_size
    )
    pictures, expected = pictures_and_scores(run, digits)
    (found,) = onnxruntime.InferenceSession(str(made.folder / "net.onnx")).run(None, {"data": pictures})
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_the_command_takes_pixels_and_says_how_far_it_is_from_the_net(
    run: Path, tmp_path: Path, command: Command
) -> None:
    wish = ["--to", "onnx", "--from-pixels", "--batch", 4, "--samples", 6, "--out", tmp_path / "out"]
    done = command("mxtrain.export", run, *wish, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["folder"] == str(tmp_path / "out")
    assert told["samples"] == 6
    assert told["relative"] < 1e-5
    known = json.loads((tmp_path / "out" / "export.json").read_text())
    assert known["inputs"] == [{"name": "data", "shape": [4, 3, 32, 32], "type": "uint8"}]
    assert known["pictures"]["normalised_inside"]
    session = onnxruntime.InferenceSession(str(tmp_path / "out" / "net.onnx"))
    (taken,) = session.get_inputs()
    assert (taken.type, taken.shape) == ("tensor(uint8)", [4, 3, 32, 32])


def test_an_export_that_answers_otherwise_is_refused_and_not_left(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def halved(node: Any) -> Any:
        return node.write("Mul", [node.inputs[0], node.constant(0.5)])

    monkeypatch.setitem(onnx_graph.TRANSLATIONS, "Activation", halved)
    with pytest.raises(
        DataError, match="the onnx export of --model small_cnn does not answer as the net does"
    ):
        export(run, to="onnx", samples=4)
    assert list((run / "export").iterdir()) == []


@pytest.mark.parametrize("from_pixels", [False, True])
def test_a_net_without_data_is_compared_on_noise(
    run: Path, from_pixels: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one is that was converted from elsewhere."""
    monkeypatch.setattr(logging.getLogger("mxtrain"), "propagate", True)
    found = trained_run.find_checkpoint(run, None, "cpu")
    whole = trained_run.run_of(found, {})
    without = dataclasses.replace(whole, data=dataclasses.replace(whole.data, train=None, val=None))
    made = exporting.make(
        found, without, ExportOptions("onnx", samples=5, from_pixels=from_pixels), is_own=True
    )
    assert made.differences.samples == 5
    assert made.differences.relative < 1e-5
    assert "compared on noise; give --val" in caplog.text


def test_wishes_that_do_not_go_together_are_refused(run: Path) -> None:
    for wish, words in (
        ({"to": "tflite"}, "--to tflite: give one of onnx, symbol, int8"),
        ({"to": "onnx", "batch": 2, "dynamic_batch": True}, "--batch 2: does not go with --dynamic-batch"),
        ({"to": "symbol", "batch": 2}, "--batch 2: does not go with --to symbol"),
        ({"to": "onnx", "batch": 0}, "--batch 0: give 1 or more"),
        ({"to": "onnx", "calibration_samples": 3}, "--calibration-samples: goes with --to int8 alone"),
        ({"to": "onnx", "calibration_samples": 512}, "--calibration-samples: goes with --to int8 alone"),
        ({"to": "int8", "from_pixels": True}, "--from-pixels: does not go with --to int8"),
    ):
        with pytest.raises(UsageError, match=words):
            export(run, **wish)
    assert not (run / "export").exists()


@pytest.mark.parametrize("missing", ["onnx", "onnxruntime"])
def test_what_is_not_installed_is_named_with_the_command(
    run: Path, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(UsageError, match=rf"--to onnx needs {missing}, .*pip install 'mxtrain\[export\]'"):
        export(run, to="onnx")
    assert not (run / "export").exists()


def test_an_operator_without_a_translation_is_named_with_its_layer(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(onnx_graph.TRANSLATIONS, "Pooling")
    with pytest.raises(
        UsageError, match=r"no translation to ONNX of the operator Pooling \(layer \w*pool\w*\)"
    ):
        export(run, to="onnx", samples=4)
    assert "Pooling" not in onnx_operators.OPERATORS
