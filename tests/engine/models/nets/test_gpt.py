"""The GPT: what a token sees, its numbers against NumPy's, its first weights, and its sizes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from mxtrain import config
from mxtrain.config.components import nets
from mxtrain.core.errors import UsageError
from mxtrain.models import remat
from mxtrain.models.parameters import weights
from mxtrain.runtime import mx
from mxtrain.tasks import lm
from mxtrain.train import job as jobs
from mxtrain.train.net import dry_run
from tests.support.nets.gpt_nets import END, LENGTH, WORDS, built


def documents(*lengths: int) -> list[list[int]]:
    rng = np.random.default_rng(0)
    return [[END, *rng.integers(0, END, length - 1).tolist()] for length in lengths]


def test_a_document_is_computed_as_if_it_stood_alone() -> None:
    _, scores = built()
    one, other = documents(5, 7)
    found = scores([other + one, one + other, (one + one + one)[:LENGTH]])
    np.testing.assert_allclose(found[0, 7:], found[1, :5], atol=1e-6)
    np.testing.assert_allclose(found[2, 5:10], found[1, :5], atol=1e-6)
    np.testing.assert_allclose(found[0, :7], found[1, 5:], atol=1e-6)


def test_a_token_sees_none_that_comes_later() -> None:
    _, scores = built()
    (one,) = documents(LENGTH)
    changed = [*one[:6], *[3] * (LENGTH - 6)]
    found = scores([one, changed])
    np.testing.assert_array_equal(found[0, :6], found[1, :6])
    assert not np.array_equal(found[0, 6:], found[1, 6:])


def test_its_scores_are_those_of_numpy() -> None:
    net, scores = built()
    one, other = documents(4, LENGTH - 4)
    by_name = {name: each.data().asnumpy() for name, each in weights.named_parameters(net).items()}
    found = scores([one + other])[0]
    np.testing.assert_allclose(found[:4], in_numpy(by_name, one, 2, 2), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[4:], in_numpy(by_name, other, 2, 2), rtol=1e-4, atol=1e-6)


def in_numpy(weights, tokens, layers, heads):
    """Return the scores of one document."""
    scipy_special = pytest.importorskip("scipy.special")

    def dense(name, x):
        return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0)

    def norm(name, x):
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt(centred.var(axis=-1, keepdims=True) + 1e-5)
        return scaled * weights[f"{name}.gamma"] + weights[f"{name}.beta"]

    x = weights["tokens.weight"][tokens] + weights["positions.weight"][: len(tokens)]
    later = np.triu(np.full((len(tokens), len(tokens)), -np.inf), 1)
    for layer in (f"layers.{number}" for number in range(layers)):
        projected = dense(f"{layer}.attention.project", norm(f"{layer}.attention_norm", x))
        query, key, value = projected.reshape(len(tokens), heads, 3, -1).transpose(2, 1, 0, 3)
        shares = scipy_special.softmax(
            query @ key.transpose(0, 2, 1) / np.sqrt(query.shape[-1]) + later, axis=-1
        )
        x = x + dense(f"{layer}.attention.join", (shares @ value).transpose(1, 0, 2).reshape(x.shape))
        wide = dense(f"{layer}.widen", norm(f"{layer}.dense_norm", x))
        x = x + dense(f"{layer}.narrow", wide * (1 + scipy_special.erf(wide / np.sqrt(2))) / 2)
    return dense("scores", norm("norm", x))


def test_first_weights_are_those_of_gpt_2() -> None:
    net, scores = built("gpt:layers=2,heads=2,width=64")
    for name, parameter in weights.named_parameters(net).items():
        spread = parameter.data().asnumpy().std()
        if name.endswith("weight"):
            is_last = name.endswith(("join.weight", "narrow.weight"))
            assert spread == pytest.approx(0.01 if is_last else 0.02, rel=0.1), name
        else:
            assert spread == 0, name
    found = scores([documents(LENGTH)[0]])
    log_sums = np.log(np.exp(found).sum(axis=-1))
    np.testing.assert_allclose(log_sums, np.log(WORDS), atol=0.05)  # every token is as likely


def test_names_tell_the_numbers_in_their_layers() -> None:
    for name in nets.that_take(nets.TOKENS):
        numbers = nets.parse(name).hyperparameters
        millions = 12 * numbers["layers"] * numbers["width"] ** 2 / 1e6
        if name != "gpt":
            assert millions == pytest.approx(float(name[4:-1]), rel=0.19), name
    net, _ = built("gpt_1m")
    inner = [each for name, each in weights.named_parameters(net).items() if name.startswith("layers")]
    assert sum(each.data().size for each in inner) == pytest.approx(12 * 6 * 128**2, rel=0.02)


def test_a_width_that_its_heads_do_not_divide_is_refused() -> None:
    with pytest.raises(UsageError, match="its width 100 is no multiple of its 6 heads"):
        nets.parse("gpt:width=100")


def test_recomputation_changes_no_number() -> None:
    """Each layer is a segment, which sees by itself which tokens see each other."""
    one, other = documents(5, LENGTH - 5)
    tokens = mx.nd.array([one + other, other + one])
    found = {}
    for flags in ("", "--remat"):
        net, _ = built("gpt:layers=4,heads=2,width=64", flags)
        with mx.autograd.record():
            losses = net(tokens).log_softmax(axis=-1).pick(tokens, axis=-1)
        losses.backward()
        remat.finish_backward(net, mx.cpu())
        gradients = {name: each.grad().asnumpy() for name, each in weights.named_parameters(net).items()}
        found[flags] = losses.asnumpy(), gradients, net
    (losses, gradients, _), (again, recomputed, net) = found.values()
    assert len(net._segments) >= 4
    np.testing.assert_array_equal(losses, again)
    for name, gradient in recomputed.items():
        np.testing.assert_allclose(gradient, gradients[name], rtol=1e-5, atol=1e-6, err_msg=name)
        assert np.abs(gradient).max() > 0 or name == "positions.weight", name


def test_a_dry_run_tells_about_how_much_memory_is_computed_in() -> None:
    """Scores of attention, (batch, heads, length, length) in each layer, and their softmax are most of it."""
    told = {}
    for flags in ("", "--remat"):
        line = "--task lm --model gpt:layers=4,heads=8,width=16 --window 64 --batch-size 4 --micro-batch 4"
        run = config.parse([*line.split(), *flags.split()])
        task = lm.LanguageModel(run, {"tokenizer": "bytes", "vocab_size": 50, "end_token": END, "window": 64})
        last = dry_run.parameter_table(jobs.of_data(task, range(100))).splitlines()[-1]
        told[flags] = float(re.search(r"computes \(about ([\d.]+) MB a micro-batch", last)[1])
    attention = 4 * 8 * 64 * 64 * 4 / 1e6
    assert 8 * attention < told[""] < 20 * attention
    assert told["--remat"] < 0.5 * told[""]


def test_a_net_too_large_for_the_machine_is_described_and_not_built(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "--task lm --model gpt:layers=2,heads=2,width=16 --window 8 --batch-size 4 --optimizer adamw"
    run = config.parse([*line.split(), "--freeze", "tokens.*", "--lr-scale", "scores.*=0.5"])
    task = lm.LanguageModel(run, {"tokenizer": "bytes", "vocab_size": 50, "end_token": END, "window": 8})
    built_table = dry_run.parameter_table(jobs.of_data(task, range(100))).splitlines()
    monkeypatch.setattr(dry_run.machine, "available_memory", lambda: 1000)
    *described, last = dry_run.parameter_table(jobs.of_data(task, range(100))).splitlines()
    assert described[:-1] == built_table[:-1]
    assert described[-1].split("(about")[0] == built_table[-1].split("(about")[0]
    assert last == "this machine has 0.0 MB left, which is too little: nothing was built"
