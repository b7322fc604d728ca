"""Frozen parameters stay to the bit; the others train."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.core.errors import UsageError
from mxtrain.models.parameters import weights
from mxtrain.optim import freeze
from mxtrain.runtime import mx
from tests.support.nets.training_steps import FLAGS, SIZE, arrays, context_of, train
from tests.support.nets.user_net import plain

BODY = "0.*,1.*,3.*,4.*"  # the first two convolutions and their norms


@pytest.mark.parametrize("devices", ["cpu", "cpu:0,1,2"])
def test_frozen_parameters_stay_to_the_bit(devices: str) -> None:
    context = context_of(f"{FLAGS} --devices {devices} --weight-decay 0.1 --freeze {BODY} --ema 0.9")
    before = arrays(context)
    frozen = set(freeze.matching_names(BODY, list(before)))
    train(context, 3)
    assert {name.split(".")[0] for name in frozen} == {"0", "1", "3", "4"}
    for name, value in arrays(context).items():
        assert np.array_equal(value, before[name]) == (name in frozen), name


def test_frozen_parameters_have_no_optimizer_state() -> None:
    context = context_of(f"{FLAGS} --freeze {BODY}")
    train(context, 1)
    named = weights.named_parameters(context.net)
    kept = {context.trainer.parameters[index].name for index in context.trainer._updaters[0].states}
    assert kept == {parameter.name for parameter in named.values() if parameter.grad_req != "null"}
    with pytest.raises(RuntimeError, match="grad_req='null'"):
        named["0.weight"].grad()


def test_a_frozen_norm_computes_as_in_evaluation() -> None:
    context = context_of(f"{FLAGS} --freeze {BODY}")
    body = context.net[:5]
    picture = mx.nd.random.uniform(shape=(4, 3, 16, 16))
    with mx.autograd.train_mode():
        training = body(picture).asnumpy()
    np.testing.assert_array_equal(training, body(picture).asnumpy())


def test_weights_alone_leave_their_norms_moving() -> None:
    context = context_of(f"{FLAGS} --freeze *.weight,*.bias")
    before = arrays(context)
    train(context, 1)
    still = {name for name, value in arrays(context).items() if np.array_equal(value, before[name])}
    assert still == {name for name in before if name.endswith(("weight", "bias"))}


def test_a_run_with_frozen_parameters_resumes() -> None:
    """Optimizer state without the frozen parameters' goes to disk and back."""
    context, again = (context_of(f"{FLAGS} --freeze {BODY}") for _ in range(2))
    train(context, 2)
    saved = context.trainer.optimizer_state()[0]
    trained = [p for p in weights.named_parameters(context.net).values() if p.grad_req != "null"]
    assert len(saved) == len(trained) == len(context.trainer.optimizer_state()[1])
    assert not again.trainer.optimizer_state()[0]


def bringing(num_classes: int) -> Any:
    """A user's net that comes with weights for its first layer."""
    net = plain(num_classes)
    net[0].initialize(mx.init.One())
    net[0](mx.nd.zeros((1, 3, SIZE, SIZE)))
    return net


def warnings_of(flags: str, caplog: pytest.LogCaptureFixture) -> list[str]:
    caplog.clear()
    context_of(f"{FLAGS} {flags}")
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_frozen_parameters_without_trained_weights_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """10 is the head, which another number of classes leaves out."""
    theirs = context_of(FLAGS).net
    named = {name: parameter.data() for name, parameter in weights.named_parameters(theirs).items()}
    whole, headless = str(tmp_path / "whole.params"), str(tmp_path / "headless.params")
    mx.nd.save(whole, named)
    mx.nd.save(headless, {**named, "10.weight": mx.nd.zeros((9, 8)), "10.bias": mx.nd.zeros(9)})
    assert warnings_of(f"--pretrained {whole} --freeze 10.*", caplog) == []
    assert warnings_of(f"--pretrained {headless} --freeze 0.*", caplog) == []
    (said,) = warnings_of(f"--pretrained {headless} --freeze 0.*,10.*", caplog)
    assert (
        f"--freeze 0.*,10.*: 10.weight, 10.bias keep their random initial values, because --pretrained {headless}"
        in said
    )
    (said,) = warnings_of("--freeze 0.*", caplog)
    assert "0.weight keep their random initial values" in said and "no --pretrained" in said
    assert warnings_of(f"--model {__name__}:bringing --freeze 0.*", caplog) == []


@pytest.mark.parametrize(
    ("patterns", "words"),
    [
        ("*.weight", "10.bias would train without its weight"),
        ("*", "leaves nothing to train"),
        ("features.*", "--freeze features.*: matches no parameter; they are called 0.weight to"),
        ("0.weigth", "did you mean '0.weight'"),
        ("0.*,nothing", "--freeze nothing"),
    ],
)
def test_senseless_patterns_are_refused(patterns: str, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        context_of(f"{FLAGS} --freeze {patterns}")
    assert words in str(refused.value)
