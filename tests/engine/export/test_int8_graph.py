"""`export --to int8` on digits: what plain MXNet loads has lost nothing, and one that has lost something is refused."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from benchmarks import exporting
from examples import boxed_shapes, masked_shapes
from mxtrain.config import Run
from mxtrain.core.errors import DataError, UsageError
from mxtrain.core.system import kernels
from mxtrain.evaluate import evaluate
from mxtrain.export import comparison, export, inference_graph
from mxtrain.export.inference_graph import InferenceGraph
from mxtrain.export.int8 import calibration, int8_export, int8_graph
from mxtrain.export.options import Int8Options
from mxtrain.inference import trained_run
from mxtrain.runtime import mx
from mxtrain.tasks.classification import Classification
from mxtrain.tasks.lm import LanguageModel
from tests.support.commands import ROOT, Command


@pytest.fixture
def run(trained_digits: Path, tmp_path: Path) -> Path:
    """A run folder of digits that may be written into."""
    return Path(shutil.copytree(trained_digits, tmp_path / "run"))


def task_of(run: Path) -> Any:
    found = trained_run.find_checkpoint(run, None, "cpu")
    return trained_run.task_of(found, trained_run.run_of(found, {}))


def graph_of(symbol: Any, **shapes: tuple[int, ...]) -> InferenceGraph:
    """The graph of a symbol with inputs of these shapes, and weights of ones."""
    batch = {name: (1, *shape) for name, shape in shapes.items()}
    arguments, outputs, _ = symbol.infer_shape(**batch)
    weights = {
        name: mx.nd.ones(shape)
        for name, shape in zip(symbol.list_arguments(), arguments)
        if name not in shapes
    }
    return InferenceGraph("a net", symbol, weights, {}, shapes, {"out": outputs[0][1:]})


@pytest.mark.skipif(np.__version__ >= "2", reason="a plain mxnet does not import beside NumPy 2")
def test_the_digits_lose_nothing_and_plain_mxnet_loads_them(
    run: Path, tmp_path: Path, command: Command
) -> None:
    done = command("mxtrain.export", run, "--to", "int8", "--calibration-samples", 64, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    judged = told["int8"]
    assert judged["float32"] > 0.9
    assert judged["int8"] > judged["float32"] - 0.01
    assert judged["samples"] == 179
    assert judged["calibrated_on"] == 64
    assert judged["in_float32"] == []
    assert 0 < told["relative"] < 0.2  # other answers, but near
    folder = run / "export" / "int8"
    assert json.loads((folder / "export.json").read_text())["int8"] == judged
    assert evaluate(folder)["val_accuracy"] == judged["int8"]
    nodes = json.loads((folder / "net-symbol.json").read_text())["nodes"]
    convolutions = [node["attrs"]["quantized"] for node in nodes if node["op"] == "_sg_mkldnn_conv"]
    assert convolutions == ["true"] * 6

    pictures = np.stack(
        [task_of(run).inputs_of(path)["data"] for path in sorted(ROOT.glob("docs/*.png"))[:4]]
    )
    np.save(tmp_path / "in.npy", pictures)
    words = [str(folder), str(tmp_path / "in.npy"), str(tmp_path / "out.npz")]
    program = ROOT / "tests" / "support" / "user_code" / "plain_mxnet.py"
    subprocess.run([sys.executable, str(program), *words], check=True, timeout=100, cwd=tmp_path)
    answered = np.load(tmp_path / "out.npz")
    block = mx.gluon.SymbolBlock.imports(
        str(folder / "net-symbol.json"), ["data"], str(folder / "net-0000.params")
    )
    for each in answered.values():
        np.testing.assert_array_equal(each, block(mx.nd.array(pictures)).asnumpy())


@pytest.mark.slow  # a cold process with other kernels; tests/unit/core/system/test_kernels.py: that it is told
def test_a_cpu_without_whole_number_instructions_is_told_of_and_loses_little(run: Path) -> None:
    line = [
        sys.executable,
        "-m",
        "mxtrain.export",
        str(run),
        "--to",
        "int8",
        "--calibration-samples",
        "64",
        "--tolerance",
        "0.03",  # of 179 samples: without these instructions oneDNN cuts off sums of two products
        "--json",
    ]
    environ = {**os.environ, "DNNL_MAX_CPU_ISA": "AVX2"}
    done = subprocess.run(line, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "--to int8: oneDNN's kernels here (AVX2) have no instructions for int8" in done.stderr
    judged = json.loads(done.stdout)["int8"]
    assert judged["int8"] > judged["float32"] - 0.03 > 0.9


def test_what_exclude_names_stays_float32_and_all_there_are_calibrate(run: Path, digits: Path) -> None:
    few = {"calibrate": str(digits / "val.rec"), "calibration_samples": 100_000}
    made = export(run, to="int8", exclude=["*_conv0_fwd", "FullyConnected"], **few)  # type: ignore[arg-type]
    assert made.int8_scores is not None
    assert made.int8_scores.in_float32 == [
        "Convolution smallcnn_conv0_fwd",
        "FullyConnected smallcnn_dense0_fwd",
    ]
    assert made.int8_scores.calibrated_on == 179


def test_one_that_has_lost_too_much_is_refused_and_not_left(run: Path, digits: Path, tmp_path: Path) -> None:
    """Calibrated on pictures that are of one grey, it knows no black and no white."""
    for of_class in (digits / "images").iterdir():
        (tmp_path / "grey" / of_class.name).mkdir(parents=True)
        cv2.imwrite(str(tmp_path / "grey" / of_class.name / "0.png"), np.full((32, 32, 3), 120, np.uint8))
    pack = [sys.executable, "-m", "tools.im2rec_wrapper", "pack", tmp_path / "grey", tmp_path / "grey.rec"]
    subprocess.run([*map(str, pack)], check=True, timeout=100, cwd=ROOT, capture_output=True)
    with pytest.raises(
        DataError,
        match=r"has lost more than --tolerance 0.02: accuracy 0\.9\d+ in float32, .* --exclude (smallcnn_\w+ ?){3}$",
    ):
        export(run, to="int8", calibrate=str(tmp_path / "grey.rec"), tolerance=0.02)
    assert list((run / "export").iterdir()) == []


def test_samples_that_are_gone_are_named_with_the_flag_that_gives_others(run: Path) -> None:
    task = task_of(run)
    moved = dataclasses.replace(task.run, data=dataclasses.replace(task.run.data, train="/gone/train.rec"))
    with pytest.raises(DataError, match=r"/gone/train.rec.*the run's own --train; .* give --calibrate"):
        int8_export._calibration_records(dataclasses.replace(task, run=moved), Int8Options())
    with pytest.raises(DataError, match=r"/gone/other\.rec does not exist") as refused:
        export(run, to="int8", calibrate="/gone/other.rec")
    assert "run's own" not in str(refused.value)


def test_a_pattern_that_fits_nothing_is_refused_with_examples() -> None:
    dense = graph_of(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="d"), data=(4,))
    assert int8_graph.excluded_names(dense, ["Fully*", "d"]) == ["d"]
    with pytest.raises(
        UsageError, match=r"--exclude conv\*: fits no operator .* the first are FullyConnected d"
    ):
        int8_graph.excluded_names(dense, ["conv*"])


def test_what_has_no_int8_is_refused_in_words() -> None:
    relu = graph_of(mx.sym.relu(mx.sym.var("data"), name="r"), data=(4,))
    with pytest.raises(UsageError, match=r"a net has no convolution or dense layer .*\(it computes relu\)"):
        int8_graph.quantised(relu, [np.ones((1, 4))], [{"data": np.ones((1, 4), np.float32)}])
    dense = graph_of(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="d"), data=(4,))
    with pytest.raises(UsageError, match=r"no convolution or dense layer that --exclude leaves"):
        int8_graph.quantised(
            dense, [np.ones((1, 2))], [{"data": np.ones((1, 4), np.float32)}], ["FullyConnected"]
        )
    with pytest.raises(UsageError, match=r"--to int8: --task lm is not judged by how much"):
        int8_export.check(LanguageModel(Run.of(task="lm"), {}))
    tokens = mx.sym.Embedding(mx.sym.var("data"), input_dim=9, output_dim=2, name="words")
    words = graph_of(mx.sym.FullyConnected(tokens, num_hidden=2, name="d"), data=(4,))
    with pytest.raises(UsageError, match=r"a net has a table of embeddings \(layer words\), which"):
        int8_export.check(Classification(Run.of(task="classification"), {}), words)


@pytest.mark.skipif(
    kernels.int8_problem() is not None, reason="kernels without VNNI cut off pairs of products"
)
def test_a_gate_of_products_computes_beside_int8() -> None:
    """MXNet's int8 kernel of a product does not take the type that its own pass gives it."""
    gate = mx.sym.relu(
        mx.sym.Convolution(mx.sym.var("data"), num_filter=4, kernel=(1, 1), name="c"), name="r"
    )
    net = graph_of(mx.sym.elemwise_mul(gate, gate, name="m"), data=(3, 4, 4))
    batches = [{"data": np.random.default_rng(0).uniform(0, 1, (2, 3, 4, 4)).astype(np.float32)}]
    answers = [np.repeat(batches[0]["data"].sum(1, keepdims=True) + 1, 4, axis=1) ** 2]
    made = int8_graph.quantised(net, answers, batches)
    assert made.in_float32 == ["elemwise_mul m"]
    assert made.num_int8 == 1
    arguments = {**made.graph.arguments, "data": mx.nd.array(batches[0]["data"])}
    (found,) = made.graph.symbol.bind(mx.cpu(), arguments).forward()
    np.testing.assert_allclose(found.asnumpy(), answers[0], rtol=0.05)


def test_ranges_are_the_extremes_or_what_entropy_leaves_of_them() -> None:
    symbol = mx.sym.relu(mx.sym.var("data"), name="r")
    graph = graph_of(symbol, data=(1000,))
    rng = np.random.default_rng(0)
    values = rng.normal(0, 1, (64, 1000)).astype(np.float32)
    values[0, 0], values[1, 1] = -40, 20  # far from all others
    batches = [{"data": part} for part in np.split(values, 4)]
    found = calibration.calibrate(symbol, graph, ["data", "r_output"], batches)
    assert found.extremes == {"data": (-40, 40), "r_output": (0, 20)}
    for name, (least, most) in found.entropy.items():
        assert 2 < most < 10
        assert least == (-most if name == "data" else 0)
    batches[0]["data"][3, 3] = np.inf
    with pytest.raises(DataError, match="a net: data is not finite; the net has diverged"):
        calibration.calibrate(symbol, graph, ["data", "r_output"], batches)


def test_what_is_always_zero_has_a_range() -> None:
    symbol = mx.sym.relu(mx.sym.var("data"), name="r")
    batches = [{"data": np.full((2, 8), -1, np.float32)}]
    found = calibration.calibrate(symbol, graph_of(symbol, data=(8,)), ["r_output"], batches)
    assert found.extremes["r_output"] == (0, 1)
    assert found.entropy["r_output"][1] > 0


@pytest.mark.slow
def test_a_net_of_gates_keeps_its_answers() -> None:
    """Squeeze and excitation by convolutions: with the ReLUs of its sums in int8 the answers are garbage."""
    task, net = exporting.build("se_resnext50_32x4d", 96)
    graph = inference_graph.of_net(net, task)
    rng = np.random.default_rng(0)
    batches = [{"data": rng.normal(size=(4, 3, 96, 96)).astype(np.float32)} for _ in range(2)]
    answers = [comparison.answer_of_net(net, batch)[0] for batch in batches]
    made = int8_graph.quantised(graph, answers, batches)
    compute, given = mx.nd.CachedOp(made.graph.symbol), {**made.graph.arguments, **made.graph.auxiliaries}
    for batch, right in zip(batches, answers):
        values = {**given, "data": mx.nd.array(batch["data"])}
        found = compute(*(values[name] for name in made.graph.symbol.list_inputs())).asnumpy()
        assert np.abs(found - right).max() < 0.1 * np.abs(right).max()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("task", ["segmentation", "detection"])
def test_nets_of_pixels_and_boxes_are_judged_by_their_scores(
    task: str, tmp_path: Path, command: Command
) -> None:
    shapes = masked_shapes if task == "segmentation" else boxed_shapes
    model = "fastscnn_citys" if task == "segmentation" else "ssd_300_mobilenet0.25_voc"
    shapes.write(tmp_path / "shapes.rec", 64, seed=0)
    sets = ["--train", tmp_path / "shapes.rec", "--val", tmp_path / "shapes.rec"]
    flags = f"--task {task} --model {model} --image-size 96 --optimizer adam --lr 0.005 --batch-size 16 --epochs 8"
    done = command("mxtrain.fit", *flags.split(), *sets, "--log", "none", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    done = command("mxtrain.export", tmp_path / "run", "--to", "int8", "--tolerance", "0.2")
    assert done.returncode == 0, done.stderr
    facts = json.loads((tmp_path / "run" / "export" / "int8" / "export.json").read_text())
    assert facts["int8"]["score"] == ("miou" if task == "segmentation" else "map")
    assert facts["int8"]["operators"] > 20 and facts["int8"]["float32"] > 0
