"""The steps that are compared with PyTorch's: they learn on pictures and on tokens, and their work is counted right."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.harness import environments
from benchmarks.harness.processes import ROOT
from benchmarks.step import clicks_side, multiplications, mxnet_nets, mxnet_side, sides, turns
from benchmarks.step.nets import FOR_TESTS, NETS, batch
from mxtrain.runtime import mx
from tests.support.amp import ALL_NARROW, needs_bf16, needs_fast_bf16


@pytest.mark.parametrize("name", FOR_TESTS)
def test_every_kind_of_net_learns_by_the_steps_of_fit(name: str) -> None:
    net = FOR_TESTS[name]
    context = mxnet_side.context_of(net, "off")
    step = mxnet_side.steps_of(net, context)
    losses = [step() for _ in range(8)]
    assert losses[-1] < 0.95 * losses[0]


@needs_fast_bf16
def test_a_net_of_tokens_runs_in_bfloat16_where_it_is_asked_for() -> None:
    """As it did not once, when its bf16 row was float32's."""
    context = mxnet_side.context_of(NETS["gpt"]._replace(batch_size=1), "bf16")
    assert context.built.forecast.share == 1


@needs_bf16
def test_a_gpt_learns_in_bfloat16_as_in_float32(tmp_path: Path) -> None:
    dear = '"any other": {"float32": 1000'  # of which a GPT has too many for the rest to pay
    table = tmp_path / "table.json"
    table.write_text(ALL_NARROW.read_text().replace(dear, dear[:-3]))
    net, curves = FOR_TESTS["small_gpt"], []
    for context in (mxnet_side.context_of(net, "off"), mxnet_side.context_of(net, "bf16", str(table))):
        step = mxnet_side.steps_of(net, context)
        curves.append([step() for _ in range(40)])
    assert context.built.forecast.share > 0.9
    wide, narrow = curves
    assert narrow != wide and narrow == pytest.approx(wide, rel=0.03)
    assert wide[-1] < 0.5 * wide[0]


def test_a_token_sees_none_of_those_after_it() -> None:
    net = FOR_TESTS["small_gpt"]
    built = mxnet_nets.of_tokens(net)
    built.initialize(mx.init.Normal(0.5))
    tokens, _ = batch(net)
    others = tokens.copy()
    others[:, 5:] = (others[:, 5:] + 1) % net.vocabulary
    before, after = (
        built(mx.nd.array(each)).reshape((net.batch_size, net.size, -1)).asnumpy()
        for each in (tokens, others)
    )
    assert np.array_equal(before[:, :5], after[:, :5])
    assert (np.abs(before[:, 5:] - after[:, 5:]).max(axis=2) > 1e-4).all()


def test_resnet18_multiplies_as_often_as_published() -> None:
    """1.8 thousand million times for a picture of 224 pixels, most of them in 3x3 convolutions."""
    net = NETS["resnet18"]._replace(batch_size=1)
    assert multiplications.of_net(mxnet_side.context_of(net, "off").net, batch(net)[0]) == 1_814_073_344


def test_multiplications_of_tokens() -> None:
    gpt, lstm = FOR_TESTS["small_gpt"], FOR_TESTS["small_lstm"]
    counts = {}
    for net in (gpt, lstm):
        built = mxnet_nets.of_tokens(net)
        built.initialize()
        counts[net.model] = multiplications.of_net(built, batch(net)[0])
    (layers, _, width), length = mxnet_nets.NUMBERS[gpt.model], gpt.size
    of_layer = 12 * width**2 + 2 * length * width
    assert counts["small_gpt"] == gpt.samples * (layers * of_layer + width * gpt.vocabulary)
    text = FOR_TESTS["small_text"]
    built = mxnet_nets.of_tokens(text)
    built.initialize()
    built(mx.nd.array(batch(text)[0]))
    (layers, _, width), length = mxnet_nets.NUMBERS[text.model], text.size
    of_layer = 12 * width**2 + 2 * length * width
    of_text = length * layers * of_layer + 2 * width * text.classes
    assert multiplications.of_net(built, batch(text)[0]) == text.batch_size * of_text
    layers, width = mxnet_nets.NUMBERS[lstm.model]
    assert counts["small_lstm"] == lstm.samples * (layers * 8 * width**2 + width * lstm.vocabulary)


def test_multiplications_of_patches_and_clicks() -> None:
    """A ViT-Ti multiplies 1.3 thousand million times for a picture of 224 pixels, as published."""
    vit = NETS["vit"]._replace(batch_size=1)
    context = mxnet_side.context_of(vit, "off")
    assert multiplications.of_net(context.net, batch(vit)[0]) == pytest.approx(1.26e9, rel=0.01)
    clicks = FOR_TESTS["small_deepfm"]
    first = clicks_side.first_weights(clicks, mxnet_side.context_of(clicks, "off"))
    of_click = 13 + 429 * 256 + 256 * 128 + 128
    assert clicks_side.multiplications(clicks, first) == clicks.batch_size * of_click
    assert first["rows"].shape == (clicks.ids, 17)


@pytest.mark.slow  # of a benchmark alone
def test_a_side_answers_each_line_with_a_turn(tmp_path: Path) -> None:
    with sides.ours("small_lstm", "off", tmp_path / "weights.npz") as side:
        side.warm_up()
        side.measure()
        num_turns = 1
        while len(side.losses) < 12:  # a turn takes its time, so a slow machine makes few steps of it
            side.measure()
            num_turns += 1
    assert len(side.seconds) == num_turns and len(side.losses) > turns.WARM_UP_STEPS
    assert min(side.losses) < 0.9 * side.losses[0] and side.last.megabytes > 50  # single steps may leap
    saved = np.load(tmp_path / "weights.npz")
    assert sum(saved[name].size for name in saved.files) == side.last.parameters


@pytest.mark.slow  # test_a_side_answers_each_line_with_a_turn holds one side of it
@pytest.mark.skipif(
    environments.interpreter(ROOT / environments.FOLDER, "torch") is None,
    reason="needs PyTorch's environment",
)
def test_a_whole_comparison(tmp_path: Path) -> None:
    out = tmp_path / "step.json"
    line = ["python", "-m", "benchmarks.step", "--nets", "gpt", "--amp", "off", "--rounds", "1", "--out", out]
    ended = subprocess.run(
        [str(word) for word in line],
        executable=sys.executable,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert "| gpt, 2048 tokens | float32 |" in ended.stdout, ended.stderr
    assert ended.returncode == 1 and "differs" not in ended.stderr and "learn" not in ended.stderr
