"""Every optimizer is what its formula says, whatever the rate does, and the same on every device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.config.components.optimizers import LEFT_OUT, OPTIMIZERS
from mxtrain.config.components.optimizers import parse as parse_optimizer
from mxtrain.core.errors import UsageError
from mxtrain.kvstore.trainers.trainer import open_trainer
from mxtrain.optim import extra_optimizers, optimizers
from mxtrain.optim.update import Update
from mxtrain.optim.weight_decay import exempt_from_decay, is_bias_or_norm
from mxtrain.runtime import mx
from tests.support.breadth import slow_cases
from tests.support.losses.reference_optimizers import REFERENCES

DECAY, RATES = 0.1, [0.003, 0.03, 0.03, 0.02, 0.0007]
SHAPES = [(1,), (5,), (3, 4), (1, 1), (8, 2, 3, 3), (2, 1, 3), (30, 7), (6,), (4, 5)]
BATCH, SCALE = 7, 1 / 128

NOT_THE_DEFAULTS = [
    "sgd:momentum=0",
    "nag:momentum=0",
    "signum:momentum=0",
    "adam:beta1=0.8,beta2=0.9,epsilon=0.01",
    "adamw:beta1=0.8,beta2=0.9,epsilon=0.01",
    "nadam:beta1=0.95,beta2=0.99,epsilon=0.01,momentum_decay=0.5",
    "adamax:beta1=0.8,beta2=0.9,epsilon=0.01",
    "adadelta:rho=0.5,epsilon=0.001",
    "adagrad:epsilon=0.01",
    "rmsprop:gamma1=0.5,epsilon=0.01",
    "rmsprop:centered=1,gamma1=0.5,gamma2=0.7,epsilon=0.01",
    "ftml:beta1=0.9,beta2=0.9,epsilon=0.01",
    "ftrl:lamda1=0.001,beta=0.5",
    "lamb:beta1=0.8,epsilon=0.01,lower_bound=0.5,upper_bound=2",
    "lamb:bias_correction=0",
    "lars:momentum=0.5,eta=0.1,epsilon=0.01",
]


def optim_of(spec: str, *flags: str) -> config.Optim:
    return config.parse(["--optimizer", spec, "--weight-decay", str(DECAY), *flags]).optim


def trainer_of(optim: config.Optim, devices: int) -> Any:
    rng = np.random.default_rng(0)
    contexts, parameters = [mx.cpu(device) for device in range(devices)], []
    for number, shape in enumerate(SHAPES):
        parameter = mx.gluon.Parameter(f"p{number}_weight", shape=shape)
        parameter.initialize(mx.init.Zero(), ctx=contexts)
        parameter.set_data(mx.nd.array(rng.standard_normal(shape)))
        parameters.append(parameter)
    return open_trainer(parameters, optimizers.build(optim), "device")


def gradients_at(step: int) -> list[Any]:
    rng = np.random.default_rng(100 + step)
    return [rng.standard_normal(shape).astype(np.float32) for shape in SHAPES]


def update(trainer: Any, gradients: list[Any], rate: float) -> None:
    """Update as a step does: gradients are sums over the batch times the loss scale."""
    for parameter, gradient in zip(trainer.parameters, gradients):
        for context, held in zip(parameter.list_ctx(), parameter.list_grad()):
            held[:] = mx.nd.array(gradient * BATCH / SCALE, ctx=context)
            parameter.data(context)._fresh_grad = True
    trainer.apply(Update(rate, SCALE / BATCH))


def weights_on(trainer: Any, device: int) -> list[Any]:
    return [parameter.list_data()[device].asnumpy() for parameter in trainer.parameters]


@pytest.mark.parametrize("spec", [*NOT_THE_DEFAULTS, *slow_cases(*OPTIMIZERS)])
def test_every_optimizer_is_its_formula_on_every_device(spec: str) -> None:
    name, numbers = parse_optimizer(optim_of(spec))
    trainer = trainer_of(optim_of(spec), devices=2)
    expected = [weight.astype(np.float64) for weight in weights_on(trainer, 0)]
    start, kept = expected, [{} for _ in SHAPES]  # type: ignore[var-annotated]
    for number, rate in enumerate(RATES, start=1):
        gradients = gradients_at(number)
        update(trainer, gradients, rate)
        expected = [
            REFERENCES[name](weight, gradient.astype(np.float64), rate, DECAY, number, numbers, of_weight)
            for weight, gradient, of_weight in zip(expected, gradients, kept)
        ]
        for found, again, right in zip(weights_on(trainer, 0), weights_on(trainer, 1), expected):
            np.testing.assert_array_equal(found, again)
            np.testing.assert_allclose(found, right, rtol=2e-4, atol=2e-6)
    assert all((before != after).all() for before, after in zip(start, expected))


def test_a_reference_for_each_and_a_reason_for_what_is_left_out() -> None:
    assert set(REFERENCES) == set(OPTIMIZERS)
    mxnets = set(mx.optimizer.Optimizer.opt_registry) - {"test"}
    assert mxnets | {"adamw"} == set(OPTIMIZERS) | set(LEFT_OUT)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_gradient_of_zero_leaves_numbers(name: str) -> None:
    """A layer that no sample reaches has none but zeros; without decay it stays, under FTRL it goes to zero."""
    trainer = trainer_of(optim_of(name, "--weight-decay", "0"), devices=1)
    before = weights_on(trainer, 0)
    for _ in range(3):
        update(trainer, [np.zeros(shape, np.float32) for shape in SHAPES], 0.1)
    for found, start in zip(weights_on(trainer, 0), before):
        np.testing.assert_allclose(found, np.zeros_like(start) if name == "ftrl" else start, rtol=1e-6)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_exempt_parameters_do_not_decay(name: str) -> None:
    """With and without decay alike, beside others that do."""
    ended = []
    for decay in ("0", "0.1"):
        trainer = trainer_of(optim_of(name, "--weight-decay", decay), devices=1)
        exempt_from_decay(trainer.parameters)
        for step in range(3):
            update(trainer, gradients_at(step), 0.03)
        ended.append(weights_on(trainer, 0))
    for without, with_decay, shape in zip(*ended, SHAPES):
        if shape != (1, 1):  # a single number has little but its sign: LAMB and Signum move it alike
            assert np.array_equal(without, with_decay) == (len(shape) < 2), shape


def test_only_matrices_and_kernels_decay() -> None:
    nn, rnn = mx.gluon.nn, mx.gluon.rnn
    net = nn.HybridSequential()
    layers = [nn.Conv2D(4, 3), nn.BatchNorm(), nn.PReLU(), nn.GroupNorm(2), nn.InstanceNorm(), nn.LayerNorm()]
    net.add(*layers, nn.Flatten(), nn.Dense(3))
    net.initialize()
    net(mx.nd.ones((2, 3, 8, 8)))
    recurrent = rnn.LSTM(4, input_size=3)
    recurrent.initialize()
    odd = [("swin0_relative_position_bias_table", (9, 2)), ("norm0_gamma", (1, 8, 1, 1)), ("scale", (8,))]
    others = [mx.gluon.Parameter(name, shape=shape) for name, shape in odd]
    parameters = [*net.collect_params().values(), *recurrent.collect_params().values(), *others]
    decaying = {parameter.name for parameter in parameters if not is_bias_or_norm(parameter)}
    assert decaying == {parameter.name for parameter in parameters if parameter.name.endswith("weight")}
    assert len(decaying) == 4 and len(parameters) > 20


def test_norms_of_large_layers_are_exact() -> None:
    """In float32 one by one, sums of squares stand still at 2**24."""
    ones = mx.nd.ones((5000, 5000))
    assert extra_optimizers._norm(ones).asscalar() == pytest.approx(5000, rel=1e-3)


def test_the_product_of_nadam_s_momenta() -> None:
    product = np.prod([extra_optimizers.momentum_at(0.9, 0.004, number) for number in range(1, 31)])
    assert extra_optimizers.momentum_product(0.9, 0.004, 30) == pytest.approx(product)
    assert extra_optimizers.momentum_product(0.9, 0.004, 10**9) == 0.0


def test_an_optimizer_of_the_user_s_own() -> None:
    built = optimizers.build(optim_of("mxnet.optimizer:DCASGD", "--momentum", "0.3", "--lr", "0.5"))
    assert (built.momentum, built.lr, built.wd) == (0.3, 0.5, DECAY)
    with pytest.raises(UsageError, match="returned a dict"):
        optimizers.build(optim_of("builtins:dict"))


def scheduled(**keywords: Any) -> Any:
    return mx.optimizer.SGD(lr_scheduler=mx.lr_scheduler.FactorScheduler(10), **keywords)


class Extended(mx.optimizer.SGD):  # type: ignore[misc]
    def __init__(self, **keywords: Any):
        super().__init__(**keywords)


def factory(**keywords: Any) -> Any:
    return mx.optimizer.Adam(beta1=keywords.pop("momentum", 0.7), **keywords)


@pytest.mark.parametrize(
    ("own", "attribute", "default"),
    [
        ("mxnet.optimizer:DCASGD", "momentum", 0.9),
        ("mxnet.optimizer:Adam", "beta1", 0.9),
        (f"{__name__}:Extended", "momentum", 0.0),
        (f"{__name__}:factory", "beta1", 0.7),
    ],
)
def test_a_momentum_reaches_the_user_s_own(own: str, attribute: str, default: float) -> None:
    assert getattr(optimizers.build(optim_of(own)), attribute) == default
    assert getattr(optimizers.build(optim_of(own, "--momentum", "0.3")), attribute) == 0.3


def test_a_momentum_that_the_user_s_own_does_not_take_is_refused() -> None:
    optimizers.build(optim_of("mxnet.optimizer:AdaGrad"))
    with pytest.raises(UsageError, match=r"--momentum 0\.3: .*AdaGrad takes neither momentum nor"):
        optimizers.build(optim_of("mxnet.optimizer:AdaGrad", "--momentum", "0.3"))


def test_a_schedule_inside_an_optimizer_is_refused() -> None:
    with pytest.raises(UsageError, match="rates come from --schedule"):
        optimizers.build(optim_of(f"{__name__}:scheduled"))


TORCHS = {
    "adamw": "AdamW",
    "nadam": "NAdam",
    "adamax": "Adamax",
    "adadelta": "Adadelta",
    "rmsprop": "RMSprop",
    "adagrad": "Adagrad",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TORCHS)
def test_the_formula_is_torch_s(name: str) -> None:
    torch = pytest.importorskip("torch")
    numbers = dict(parse_optimizer(optim_of(name)).hyperparameters, epsilon=1e-8)
    keywords = {
        **({"betas": (numbers["beta1"], numbers["beta2"])} if "beta1" in numbers else {}),
        **({"rho": numbers["rho"]} if "rho" in numbers else {}),
        **({"alpha": numbers["gamma1"]} if "gamma1" in numbers else {}),
    }
    decay = 0.0 if name == "adagrad" else DECAY  # MXNet's is decoupled, torch's is not
    expected = np.random.default_rng(0).standard_normal((4, 5))
    weight, kept = torch.tensor(expected, dtype=torch.float64, requires_grad=True), {}  # type: ignore[var-annotated]
    theirs = getattr(torch.optim, TORCHS[name])([weight], lr=1.0, eps=1e-8, weight_decay=decay, **keywords)
    for number, rate in enumerate(RATES, start=1):
        gradient = np.random.default_rng(number).standard_normal((4, 5))
        weight.grad = torch.tensor(gradient)
        theirs.param_groups[0]["lr"] = rate
        theirs.step()
        expected = REFERENCES[name](expected, gradient, rate, decay, number, numbers, kept)
        np.testing.assert_allclose(weight.detach().numpy(), expected, rtol=1e-5)
