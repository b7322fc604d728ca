"""`--profile FIRST:LAST`: one trace of operators and stages on one clock, and a run that is the same to the bit."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, Mapping

import numpy as np
import pytest

from mxtrain.config import Run
from mxtrain.core.errors import UsageError
from mxtrain.fit import Result, StopTraining, fit
from mxtrain.models.parameters import weights
from mxtrain.runtime import mx
from mxtrain.train.telemetry import profile
from tests.support.breadth import slow_cases

FLAGS = {"image_size": 16, "batch_size": 16, "micro_batch": 8, "lr": 0.05, "epochs": 3, "log": "none"}


def new_net() -> Any:
    """A residual net of whose two branches one takes nearly all the time."""
    nn = mx.gluon.nn

    class Net(mx.gluon.HybridBlock):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2D(4, 3, padding=1)
            self.light = nn.Conv2D(8, 1)
            self.norm = nn.BatchNorm()
            self.lighter = nn.Conv2D(8, 1)
            self.heavy = nn.Conv2D(8, 15, padding=7)
            self.out = nn.Dense(2)

        def hybrid_forward(self, F: Any, data: Any) -> Any:
            stem = F.relu(self.stem(data))
            return self.out(self.lighter(F.relu(self.norm(self.light(stem)))) + self.heavy(stem))

    return Net()


def trained(out: Path, **others: Any) -> Result:
    flags = {
        name: others.pop(name)
        for name in list(others)
        if name in ("profile", "epochs", "model", "image_size")
    }
    chosen = np.random.default_rng(0)
    pictures = chosen.integers(0, 256, (32, 16, 16, 3), np.uint8), np.arange(32) % 2
    net = {} if "model" in flags else {"net": new_net()}
    return fit(Run.of(**{**FLAGS, "out": out, **flags}), train=pictures, **net, **others)


def bits(result: Result) -> list[bytes]:
    return [array.tobytes() for array in weights.copy_of(result.net).values()]


def trace_of(out: Path) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads((out / "logs" / "profile.json").read_text())
    return found


def spans(trace: Mapping[str, Any], category: str) -> list[Any]:
    return [each for each in trace["traceEvents"] if each["ph"] == "X" and each["cat"] == category]


def test_a_profiled_run_is_the_same_to_the_bit_and_its_trace_has_operators_within_stages(
    tmp_path: Path,
) -> None:
    plain = trained(tmp_path / "plain")
    profiled = trained(tmp_path / "profiled", profile="3:4")
    assert bits(profiled) == bits(plain)
    losses = [[each["loss"] for each in run.history if each["kind"] == "train"] for run in (plain, profiled)]
    assert losses[0] == losses[1] and len(losses[0]) == 6
    assert not (tmp_path / "plain" / "logs" / "profile.json").exists()

    trace = trace_of(tmp_path / "profiled")
    stages, operators = spans(trace, "stage"), spans(trace, "operator")
    steps = [each for each in stages if each["name"].startswith("step ")]
    assert [each["name"] for each in steps] == ["step 3", "step 4"]
    computing = [(each["ts"], each["ts"] + each["dur"]) for each in stages if each["name"] == "compute"]
    products = [each for each in operators if "Convolution" in each["name"]]
    assert len(products) == 2 * 2 * 4 * 2  # of steps, micro-batches, convolutions, passes
    for each in products:  # the clocks are one: a millisecond of slack would be 20 times an operator's time
        middle = each["ts"] + each["dur"] / 2
        assert any(begin <= middle <= end for begin, end in computing)
    assert not [each for each in operators if "," in each["name"]]
    named = {
        (each["pid"], each["name"]): each["args"]["name"]
        for each in trace["traceEvents"]
        if each["ph"] == "M"
    }
    assert {each["pid"] for each in stages + operators} == {
        pid for pid, what in named if what == "process_name"
    }
    assert any(name == "MXNet cpu/0" for name in named.values())

    records = map(json.loads, (tmp_path / "profiled" / "metrics.jsonl").read_text().splitlines())
    (event,) = [each for each in records if each["kind"] == "event" and each["event"] == "profile"]
    assert event["step"] == 4 and "steps 3 to 4 profiled" in event["text"]
    assert any(line.startswith("first: ") for line in event["lines"])


def test_layers_are_told_apart_also_where_branches_run_out_of_turn(tmp_path: Path) -> None:
    trained(tmp_path, profile="2:3", epochs=2)
    micros: dict[str, float] = {}
    calls: dict[str, int] = {}
    for each in spans(trace_of(tmp_path), "operator"):
        if "Convolution" in each["name"]:
            layer = each["args"]["layer"]
            # The least: others may have the CPU in between.
            micros[layer], calls[layer] = min(each["dur"], micros.get(layer, 1e9)), calls.get(layer, 0) + 1
    assert calls == dict.fromkeys(("stem", "light", "lighter", "heavy"), 2 * 2 * 2)
    assert max(micros, key=lambda layer: micros[layer]) == "heavy"


@pytest.mark.alone  # the two orders are told apart by the times of their operators
def test_layers_are_told_apart_also_where_branches_run_one_after_the_other(tmp_path: Path) -> None:
    """As in residual nets: the memory of the shortcut's output is another array's until the other branch is done."""
    trained(tmp_path, model="small_resnet", image_size=32, profile="2:3", epochs=2)
    micros: dict[str, float] = {}
    for each in spans(trace_of(tmp_path), "operator"):
        if each["name"] == "Convolution":
            layer = each["args"]["layer"]
            micros[layer] = min(each["dur"], micros.get(layer, each["dur"]))
    branches = [(f"{block}.body.3", f"{block}.shortcut.0") for block in (5, 7)]
    assert all(micros[other] < micros[body] for body, other in branches), micros


def test_each_run_of_a_process_has_its_own_trace_and_the_profiler_is_off_between(tmp_path: Path) -> None:
    trained(tmp_path / "a", profile="1:1", epochs=1)
    for _ in range(3):
        mx.nd.erf(mx.nd.ones(3)).wait_to_read()  # no net here has one
    trained(tmp_path / "b", profile="2:2", epochs=1)
    (written,) = profile._written
    assert not written.parent.exists()  # nor is anything left in the folder for temporary files
    for name, step in (("a", "step 1"), ("b", "step 2")):
        trace = trace_of(tmp_path / name)
        assert [each["name"] for each in spans(trace, "stage") if each["name"].startswith("step")] == [step]
        assert not [each for each in spans(trace, "operator") if "erf" in each["name"]]


def test_a_run_that_is_stopped_in_between_leaves_no_trace_and_no_profiler(tmp_path: Path) -> None:
    def stop(record: Any) -> None:
        if record["step"] == 3:
            raise StopTraining

    trained(tmp_path, profile="2:5", on_step=stop)
    assert not (tmp_path / "logs" / "profile.json").exists()
    mx.nd.erf(mx.nd.ones(3)).wait_to_read()
    resumed = trained(tmp_path, profile="2:5")  # what is left of the steps
    trace = trace_of(tmp_path)
    assert [each["name"] for each in spans(trace, "stage") if each["name"].startswith("step")] == [
        "step 4",
        "step 5",
    ]
    assert not [each for each in spans(trace, "operator") if "erf" in each["name"]]
    assert bits(resumed) == bits(trained(tmp_path / "plain"))


def test_a_trace_is_whole_however_long_its_steps_take(tmp_path: Path) -> None:
    """MXNet's profiler writes and forgets what it has each second, unless told otherwise."""
    trained(tmp_path, profile="2:3", epochs=2, on_step=lambda record: time.sleep(1.2 * (record["step"] == 2)))
    names = [each["name"] for each in spans(trace_of(tmp_path), "operator")]
    assert names.count("Convolution") == 2 * 2 * 4  # of steps, micro-batches, layers


def test_a_run_goes_on_without_a_trace_that_cannot_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "logs" / "profile.json").mkdir(parents=True)
    found = trained(tmp_path, profile="2:3")
    assert "--profile 2:3: no trace could be made" in caplog.text and "profile.json" in caplog.text
    assert [each["step"] for each in found.history if each["kind"] == "train"] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2", "give the numbers of two steps, as in --profile 100:110"),
        ("5:7", "the run has 6 steps; give a range within them"),
        *slow_cases(
            ("5:3", "it ends before it begins; give --profile 3:5"),
            ("0:3", "step 1 is the first"),
            ("a:b", "give the numbers of two steps"),
            ("-1:3", "give the numbers of two steps"),
            ("1:5000", "give 1000 steps or fewer"),
        ),
    ],
)
def test_other_ranges_are_refused_before_anything_starts(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=f"--profile {text}: {said}"):
        trained(tmp_path / "run", profile=text)
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
