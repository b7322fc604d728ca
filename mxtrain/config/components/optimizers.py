"""Optimizers by name: `--optimizer`. To add one is an entry here, whose factory makes an `mxnet.optimizer.Optimizer`.

Owns their numbers and what they go with, and parsing the flag together with --momentum. Building one is
`mxtrain/optim/optimizers.py`'s.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from mxtrain.config.components import component
from mxtrain.config.components.component import Component, Number, Spec, by_name
from mxtrain.core.errors import UsageError

if TYPE_CHECKING:
    from mxtrain.config import Optim


@dataclasses.dataclass(frozen=True)
class Optimizer(Component):
    """An optimizer; its factory is called with `learning_rate`, `wd` and its numbers."""

    momentum: str = ""  # the number that --momentum sets
    decay: str = "L2"  # what weight decay is, for the docs
    needs_whole_layers: bool = False  # the length of a layer's weights, of which a server has a part
    is_lazy: bool = False  # leaves the rows of a table alone that have no gradient


def _decay(default: float) -> Number:
    """Return the number of a running mean: the share that stays at each update."""
    return Number(default, 0.0, 0.999999)


def _epsilon(default: float) -> Number:
    return Number(default, 1e-16, 1.0)


_MOMENTUM = {"momentum": _decay(0.9)}
_ADAM = {"beta1": _decay(0.9), "beta2": _decay(0.999), "epsilon": _epsilon(1e-8)}
_MXNET, _OWN = "mxtrain.runtime:mx.optimizer.", "mxtrain.optim.extra_optimizers:"

OPTIMIZERS = by_name(
    Optimizer(
        "sgd",
        "the rate is part of the velocity, as in all of MXNet",
        _MXNET + "SGD",
        _MOMENTUM,
        momentum="momentum",
        is_lazy=True,
    ),
    Optimizer("nag", "SGD with Nesterov's momentum", _OWN + "Nag", _MOMENTUM, momentum="momentum"),
    Optimizer(
        "signum",
        "moves by the sign of the running mean of the gradient",
        _OWN + "Signum",
        _MOMENTUM,
        momentum="momentum",
    ),
    Optimizer(
        "adam",
        "`epsilon` beside the root of the uncorrected mean of squares, as in all of MXNet",
        _MXNET + "Adam",
        _ADAM,
        momentum="beta1",
        is_lazy=True,
    ),
    Optimizer("adamw", "the same as torch's", _OWN + "AdamW", _ADAM, momentum="beta1", decay="decoupled"),
    Optimizer(
        "nadam",
        "Adam with Nesterov's momentum, the same as torch's",
        _OWN + "NAdam",
        {**_ADAM, "momentum_decay": Number(0.004, 0.0, 1.0)},
        momentum="beta1",
    ),
    Optimizer(
        "adamax",
        "Adam with the largest gradient, the same as torch's",
        _OWN + "AdaMax",
        _ADAM,
        momentum="beta1",
    ),
    Optimizer(
        "adadelta",
        "the same as torch's; the paper's has `--lr 1`",
        _OWN + "AdaDelta",
        {"rho": _decay(0.9), "epsilon": _epsilon(1e-5)},
    ),
    Optimizer(
        "adagrad",
        "a rate for each weight, which falls with the squares of its gradients",
        _OWN + "ada_grad",
        {"epsilon": _epsilon(1e-7)},
        decay="decoupled",
    ),
    Optimizer(
        "rmsprop",
        "`gamma1`: decay of the mean of squares; with `centered=1` Graves's form, which has the momentum `gamma2`",
        _MXNET + "RMSProp",
        {
            "gamma1": _decay(0.9),
            "gamma2": _decay(0.9),
            "epsilon": _epsilon(1e-8),
            "centered": Number(0, 0, 1),
        },
        momentum="gamma2",
    ),
    # Its beta1 is no number of --momentum: its authors' is 0.6, and nothing like a momentum.
    Optimizer(
        "ftml",
        "follow the moving leader",
        _MXNET + "FTML",
        {"beta1": _decay(0.6), "beta2": _decay(0.999), "epsilon": _epsilon(1e-8)},
    ),
    Optimizer(
        "ftrl",
        "for wide sparse models: it starts near zero whatever the weights were, from where a deep net does not learn",
        _MXNET + "Ftrl",
        {"lamda1": Number(0.01, 0.0, 1e6), "beta": Number(1.0, 1e-6, 1e6)},
        decay="L2, in its closed form",
    ),
    Optimizer(
        "lamb",
        "Adam with a step as long as the weights in each layer, a length within the bounds (0: none); the decay is "
        "part of the step",
        _OWN + "Lamb",
        {
            **_ADAM,
            "epsilon": _epsilon(1e-6),
            "lower_bound": Number(0.0, 0.0, 1e6),
            "upper_bound": Number(0.0, 0.0, 1e6),
            "bias_correction": Number(1, 0, 1),
        },
        momentum="beta1",
        decay="decoupled",
        needs_whole_layers=True,
    ),
    Optimizer(
        "lars",
        "SGD whose rate is scaled for each layer by `eta` x length of the weights / length of gradient and decay; "
        "biases and norm parameters are not scaled",
        _OWN + "Lars",
        {**_MOMENTUM, "eta": Number(0.001, 1e-9, 1e3), "epsilon": Number(0.0, 0.0, 1.0)},
        momentum="momentum",
        needs_whole_layers=True,
    ),
)
LEFT_OUT = {
    "ccsgd": "it is sgd's old name; give sgd",
    "dcasgd": "it makes up for the delays of asynchronous updates, and here there are none; give sgd",
    "groupadagrad": "it takes only matrices, and no weight decay; give adagrad",
    "lbsgd": "it counts batches of its own, past resume; give lars and --warmup-epochs",
    "sgld": "it draws its noise for each device, so that replicas drift apart; give sgd",
}


def parse(optim: Optim, is_momentum_set: bool = False) -> Spec:
    """Parse --optimizer together with --momentum, which sets a number unless the description has it.

    `is_momentum_set` where somebody has set it, be it to the default; another value has been set anyway.
    """
    text, is_set = optim.optimizer, is_momentum_set or optim.momentum != type(optim).momentum
    name = text.partition(":")[0]
    if name in LEFT_OUT:
        raise UsageError(f"--optimizer {text}: left out, because {LEFT_OUT[name]}")
    name, hyperparameters = parsed = component.parse("--optimizer", text, OPTIMIZERS)
    if name not in OPTIMIZERS:
        return parsed
    explicit = component.keys_of(text)
    key = OPTIMIZERS[name].momentum
    if name == "rmsprop" and not hyperparameters["centered"]:
        if "gamma2" in explicit:
            raise UsageError(f"--optimizer {text}: gamma2 is the centered one's; add centered=1")
        key = ""
    if not key and is_set:
        raise UsageError(f"--momentum {optim.momentum:g}: --optimizer {text} has none; leave --momentum out")
    if key in explicit and is_set and optim.momentum != hyperparameters[key]:
        raise UsageError(
            f"--momentum {optim.momentum:g}: --optimizer {text} says {hyperparameters[key]:g}; leave one of them out"
        )
    return Spec(
        name, hyperparameters if not key or key in explicit else {**hyperparameters, key: optim.momentum}
    )
