"""--lr-scale and --layer-decay: each parameter moves by its own rate, with every optimizer."""

from __future__ import annotations

import numpy as np
import pytest

from mxtrain import config
from mxtrain.config.checks import run_checks
from mxtrain.config.components import nets
from mxtrain.config.components.optimizers import OPTIMIZERS
from mxtrain.core.errors import UsageError
from mxtrain.models.nets import zoo
from mxtrain.models.parameters import weights
from mxtrain.optim import layer_rates
from mxtrain.train.net import dry_run
from tests.support.nets.training_steps import (
    CLASSES,
    FLAGS,
    QUICK_NET,
    QUICK_RESNET,
    SIZE,
    arrays,
    assert_equal,
    context_of,
    job_of,
    train,
)

NOT_LINEAR = ("ftrl", "ftml")  # how far these move in a step is not as the rate


def moved(flags: str) -> dict[str, np.ndarray]:
    """How far each trained parameter moves in the first step."""
    context = context_of(f"{FLAGS} --weight-decay 0 {flags}")
    before = arrays(context)
    train(context, 1)
    after, named = arrays(context), weights.named_parameters(context.net)
    return {name: after[name] - before[name] for name, each in named.items() if each.grad_req != "null"}


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
def test_each_optimizer_moves_a_parameter_by_its_own_rate(optimizer: str) -> None:
    plain = moved(f"--optimizer {optimizer}")
    scaled = moved(f"--optimizer {optimizer} --lr-scale *.weight=0.5,0.*=0.25")
    assert plain.keys() == scaled.keys() and "0.weight" in plain
    for name, distance in plain.items():
        factor = 0.25 if name.startswith("0.") else 0.5 if name.endswith("weight") else 1.0
        if factor == 1 or optimizer not in NOT_LINEAR:
            # a change of a weight is known to the last bit of the weight
            np.testing.assert_allclose(scaled[name], factor * distance, rtol=1e-3, atol=2e-7, err_msg=name)
        else:
            assert 0 < np.abs(scaled[name]).sum() < np.abs(distance).sum(), name


def test_devices_change_nothing() -> None:
    flags = f"{FLAGS} --optimizer adamw --layer-decay 0.5 --lr-scale 1.*=3"
    one, three = context_of(flags), context_of(f"{flags} --devices cpu:0,1,2")
    train(one, 3), train(three, 3)
    assert_equal(arrays(three), arrays(one))


def rates(flags: str, model: str = QUICK_NET) -> dict[str, float]:
    """What --dry-run tells of the parameters whose rate is another than --lr."""
    line = f"--train t.rec --image-size {SIZE} --model {model} {FLAGS} --lr 0.1 {flags}"
    run = config.parse(line.split())
    rows = dry_run.parameter_table(job_of(run, CLASSES)).splitlines()[1:-2]
    return {row.split()[0]: float(row.split("rate ")[1]) for row in rows if "rate " in row}


def test_a_layers_rate_falls_with_its_distance_from_the_output() -> None:
    found = rates("--layer-decay 0.5")  # two convolutions, each with its norm, and the head
    assert found == {
        **dict.fromkeys(("0.weight", "1.gamma", "1.beta"), pytest.approx(0.025)),
        **dict.fromkeys(("3.weight", "4.gamma", "4.beta"), pytest.approx(0.05)),
    }
    blocks = rates("--layer-decay 0.5", QUICK_RESNET)  # the first convolution, three blocks, the head
    assert blocks["0.weight"] == pytest.approx(0.1 / 16) and blocks["5.body.0.weight"] == pytest.approx(0.05)
    assert "8.weight" not in blocks
    both = rates("--layer-decay 0.5 --lr-scale 0.*=10,0.weight=2,10.*=3")
    assert both["0.weight"] == pytest.approx(0.05)  # of patterns that match the last counts
    assert rates("") == {}


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("resnet18_v1b", 1 + 8 + 1),
        ("vgg11_bn", 8 + 3),
        ("mobilenetv2_1.0", 1 + 17 + 1 + 1),
        ("se_resnext50_32x4d", 1 + 16 + 1),
        ("densenet121", None),
        ("squeezenet1.0", None),
    ],
)
def test_the_layers_of_known_nets(name: str, count: int | None) -> None:
    net = zoo.build(name, CLASSES)
    named = weights.named_parameters(net)
    found = layer_rates.layers(net)
    assert sum(map(len, found)) == len(named) and len(found) == (count or len(found))
    first, *_, last = named.values()
    assert any(first is each for each in found[0]) and any(last is each for each in found[-1])


def test_the_layers_of_a_body_with_a_head_are_its_own() -> None:
    net = nets.build(
        "transformer:layers=3,heads=2,width=8", vocabulary=20, num_classes=2, length=12, of_tokens=False
    )
    names = {id(each): name for name, each in weights.named_parameters(net).items()}
    firsts = [names[id(layer[0])] for layer in layer_rates.layers(net)]
    assert firsts[:2] == ["body.tokens.weight", "body.positions.weight"]
    assert [name.split(".")[:3] for name in firsts[2:5]] == [["body", "layers", str(k)] for k in range(3)]
    assert firsts[5:] == ["scores.weight"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--lr-scale 0.*", r"--lr-scale 0\.\*: give PATTERN=FACTOR joined by commas"),
        ("--lr-scale =3", "give PATTERN=FACTOR"),
        ("--lr-scale 0.*=a", "give PATTERN=FACTOR"),
        ("--lr-scale 0.*=0", r"a rate of 0 trains nothing; give --freeze '0\.\*'"),
        ("--lr-scale 0.*=-1", "give a factor from 1e-06 to 1e"),
        ("--lr-scale 0.*=nan", "give a factor from 1e-06 to 1e"),
    ],
)
def test_what_is_no_scale_is_refused_before_anything_is_built(flags: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        run_checks.check_description(config.parse(["--train", "t.rec", *flags.split()]))


def test_a_pattern_that_matches_nothing_names_the_nearest() -> None:
    with pytest.raises(
        UsageError, match=r"--lr-scale 0\.weigt: matches no parameter; did you mean '0\.weight'"
    ):
        context_of(f"{FLAGS} --lr-scale 0.weigt=0.1")


def test_layers_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(UsageError, match="--layer-decay: the net is one layer"):
        context_of(f"{FLAGS} --model tests.engine.optim.test_layer_rates:wrapped --layer-decay 0.5")


def wrapped(num_classes: int):  # type: ignore[no-untyped-def]
    """A net whose only child is no sequence."""
    from mxtrain.runtime import mx
    from tests.support.nets.training_steps import quick_net

    class Wrapped(mx.gluon.HybridBlock):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.body = Inner()

        def hybrid_forward(self, F, x):  # type: ignore[no-untyped-def]
            return self.body(x)

    class Inner(mx.gluon.HybridBlock):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.layers = quick_net(num_classes)

        def hybrid_forward(self, F, x):  # type: ignore[no-untyped-def]
            return self.layers(x)

    return Wrapped()
