"""Classifiers in bfloat16: a step of each beside float32's, and their graphs for CPUs that have it, on any CPU."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import numpy as np
import pytest

from mxtrain.config import autocast_costs
from mxtrain.config.components.zoo import gluoncv_names
from mxtrain.core.system import kernels
from mxtrain.models import chosen_rewrites
from mxtrain.models.autocast.autocast import Autocast
from mxtrain.models.compiled_graphs import JUDGING, TRAINING
from mxtrain.models.nets import zoo
from mxtrain.models.rewrites import graph_rewrites
from mxtrain.runtime import mx
from tests.support.amp import ALL_NARROW, needs_bf16, problem
from tests.support.nets.classifier_steps import CLASSES, PICTURES, input_size, train_once
from tests.support.nets.rounded_inputs import with_rounded_inputs
from tests.support.nets.simulated_bfloat16 import KERNELS, simulated

ROOT = Path(__file__).resolve().parents[4]
NO_GRAPH = ("resnet50_v1b_gn", "resnet101_v1b_gn")
FEWER = {kernels.AMX: KERNELS}.get(kernels.onednn(), "AVX512_CORE")
SHIPPED, OF_ALL = "", str(ALL_NARROW)  # --amp-table: by the times of the machine, and all that can be narrow


class Narrow(NamedTuple):
    """A step in bfloat16 beside the same one in float32, and beside float32's operators on rounded inputs."""

    kernels: str
    share: float  # of the FLOPs that run in bfloat16
    loss: float  # over float32's
    length: float  # of the gradient, over that of float32's
    length_of_rounded: (
        float  # the same of float32's operators, with their inputs and gradients rounded to bfloat16
    )
    cosine: float  # of the gradient and float32's
    cosine_of_rounded: float

    @property
    def is_float32_but_for_rounding(self) -> bool:
        """With random weights and few pictures a deep net's gradient turns with any bit: so by what rounding does."""
        turned = 1 - self.cosine <= 0.05 + 1.5 * (1 - self.cosine_of_rounded)
        return turned and abs(self.loss - 1) < 0.1 and 0.5 < self.length / self.length_of_rounded < 2


def narrow_and_wide(name: str, table: str) -> Narrow:
    """Train a step in both; for a process of its own, whose graphs stay rewritten."""
    size, used = input_size(name), KERNELS if problem else kernels.onednn()
    times = autocast_costs.of_run("bf16", table, used)
    assert times
    narrowing = Autocast(times)
    wide = train_once(name, size)
    with simulated() if problem else contextlib.nullcontext():
        narrow = train_once(name, size, narrowing)
    with mock.patch("mxtrain.models.autocast.autocast.with_casts", with_rounded_inputs):
        of_rounded = train_once(name, size, Autocast(times))
    length, *others = (float(np.linalg.norm(step.gradient)) for step in (wide, narrow, of_rounded))
    cosines = [
        float(step.gradient @ wide.gradient) / (length * other)
        for step, other in zip((narrow, of_rounded), others)
    ]
    share = narrowing.forecast.share
    lengths = [other / length for other in others]
    return Narrow(used, share, narrow.loss / wide.loss, *lengths, *cosines)


def in_a_process(name: str, table: str = OF_ALL, cap: str = "") -> Narrow:
    """After large nets, oneDNN fails small ones in the same process now and then."""
    code = (
        f"import json; from {__name__} import narrow_and_wide; found = narrow_and_wide({name!r}, {table!r})"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; print(json.dumps(found))"],
        cwd=ROOT,
        env={**os.environ, **({kernels.MAX_CPU_ISA: cap} if cap else {})},
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert done.returncode == 0, done.stderr
    print(f"{name} with oneDNN's {kernels.onednn() if problem else cap or 'own'}: {done.stdout}")
    return Narrow(*json.loads(done.stdout.splitlines()[-1]))


def classifiers(*in_ci: str) -> pytest.MarkDecorator:
    """Return the parameter `name`: all classifiers, of which these are in CI."""
    names = gluoncv_names.GLUONCV_CLASSIFIERS
    marked = [pytest.param(each, marks=[pytest.mark.slow] * (each not in in_ci)) for each in names]
    return pytest.mark.parametrize("name", marked)


@pytest.mark.timeout(900)
@classifiers("cifar_resnet20_v2")
def test_every_classifier_trains_in_bfloat16_as_in_float32(name: str) -> None:
    """All of it that can; where the CPU has none, with all that goes between rounded as there."""
    found = in_a_process(name)
    assert found.share > 0.9 or name in NO_GRAPH
    assert found.is_float32_but_for_rounding, found


@pytest.mark.timeout(900)
@pytest.mark.slow
@classifiers()
def test_so_it_does_by_the_times_of_the_machine(name: str) -> None:
    """Which leave more in float32, in the middle of nets."""
    found = in_a_process(name, SHIPPED)
    assert found.is_float32_but_for_rounding, found


@needs_bf16
@pytest.mark.timeout(900)
@pytest.mark.slow
@classifiers()
def test_so_it_does_without_the_best_instructions_for_bfloat16(name: str) -> None:
    found = in_a_process(name, cap=FEWER)
    assert found.share > 0.9 or name in NO_GRAPH
    assert found.is_float32_but_for_rounding, found


@pytest.mark.parametrize("used", [KERNELS, pytest.param(kernels.AMX, marks=pytest.mark.slow)])
@classifiers("cifar_resnet20_v2", "mobilenetv3_small")
def test_operators_of_ours_take_float32_whatever_the_cpu_has(name: str, used: str) -> None:
    if name in NO_GRAPH:
        pytest.skip("runs imperatively, in float32")
    output, size = zoo.build(name, CLASSES)(mx.sym.var("data")), input_size(name)
    shapes = {"data": (PICTURES, 3, size, size)}
    for table in (SHIPPED, OF_ALL):
        times = autocast_costs.of_run("bf16", table, used)
        assert times
        with mock.patch.object(kernels, "onednn", lambda: used):
            narrow = graph_rewrites.rewritten(output, shapes, chosen_rewrites.rewrites(Autocast(times)))
            for purpose in (TRAINING, JUDGING):
                rewrites = chosen_rewrites.by_purpose()[purpose]
                assert_operators_of_ours_take_float32(graph_rewrites.rewritten(narrow, shapes, rewrites))


def assert_operators_of_ours_take_float32(symbol: mx.sym.Symbol) -> None:
    internals = symbol.get_internals()
    _, found, _ = internals.infer_type(data="float32")
    types = dict(zip(internals.list_outputs(), found))
    assert all(types[name] == np.float32 for name in symbol.list_outputs())
    nodes = json.loads(symbol.tojson(remove_amp_cast=False))["nodes"]
    for node in nodes:
        for source, *_ in node["inputs"] if node["op"].startswith("mxtrain_") else ():
            of_input = nodes[source]
            name = of_input["name"] if of_input["op"] == "null" else f"{of_input['name']}_output"
            assert types.get(name, np.float32) == np.float32, (node["name"], name)
