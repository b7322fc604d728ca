"""The language of --optimizer: `adamw:beta2=0.95,epsilon=1e-6`.

Owns which optimizers there are, their numbers with defaults and limits, and what --momentum means to each. A run is
checked with it before mxnet loads; the optimizers themselves are `optim/optimizers.py`'s.
"""

from __future__ import annotations

from mxtrain.config import Optim
from mxtrain.config.spec import Number, Spec, given, parse
from mxtrain.core.errors import UsageError

BELOW_ONE = 0.999999


def _share(default: float) -> Number:
    """How much of a running mean stays."""
    return Number(default, 0.0, BELOW_ONE)


def _small(default: float) -> Number:
    """What keeps a division from being one by zero."""
    return Number(default, 1e-16, 1.0)


ADAM = {"beta1": _share(0.9), "beta2": _share(0.999), "epsilon": _small(1e-8)}
OPTIMIZERS: dict[str, dict[str, Number]] = {
    "sgd": {"momentum": _share(0.9)},
    "nag": {"momentum": _share(0.9)},
    "signum": {"momentum": _share(0.9)},
    "adam": ADAM,
    "adamw": ADAM,
    "nadam": {**ADAM, "momentum_decay": Number(0.004, 0.0, 1.0)},
    "adamax": ADAM,
    "adadelta": {"rho": _share(0.9), "epsilon": _small(1e-5)},
    "adagrad": {"epsilon": _small(1e-7)},
    "rmsprop": {
        "gamma1": _share(0.9),
        "gamma2": _share(0.9),
        "epsilon": _small(1e-8),
        "centered": Number(0, 0, 1),
    },
    "ftml": {"beta1": _share(0.6), "beta2": _share(0.999), "epsilon": _small(1e-8)},
    "ftrl": {"lamda1": Number(0.01, 0.0, 1e6), "beta": Number(1.0, 1e-6, 1e6)},
    "lamb": {
        **ADAM,
        "epsilon": _small(1e-6),
        "lower_bound": Number(0.0, 0.0, 1e6),
        "upper_bound": Number(0.0, 0.0, 1e6),
        "bias_correction": Number(1, 0, 1),
    },
    "lars": {"momentum": _share(0.9), "eta": Number(0.001, 1e-9, 1e3), "epsilon": Number(0.0, 0.0, 1.0)},
}
# FTML's beta1 is not here: its authors' is 0.6, and nothing like a momentum.
MOMENTUM = {
    **dict.fromkeys(("sgd", "nag", "signum", "lars"), "momentum"),
    **dict.fromkeys(("adam", "adamw", "nadam", "adamax", "lamb"), "beta1"),
    "rmsprop": "gamma2",
}
LEFT_OUT = {
    "ccsgd": "it is sgd's old name; give sgd",
    "dcasgd": "it makes up for the delays of asynchronous updates, and here there are none; give sgd",
    "groupadagrad": "it takes only matrices, and no weight decay; give adagrad",
    "lbsgd": "it counts batches of its own, past resume; give lars and --warmup-epochs",
    "sgld": "it draws its noise for each device, so that replicas drift apart; give sgd",
}


def resolve(optim: Optim) -> Spec:
    """The optimizer that `optim` names and all its numbers; UsageError for what does not fit together."""
    text = optim.optimizer
    name = text.partition(":")[0]
    if name in LEFT_OUT:
        raise UsageError(f"--optimizer {text}: left out, because {LEFT_OUT[name]}")
    name, numbers = found = parse("--optimizer", text, OPTIMIZERS)
    if name not in OPTIMIZERS:
        return found
    key, differs = MOMENTUM.get(name), optim.momentum != Optim.momentum
    if name == "rmsprop" and not numbers["centered"]:
        if "gamma2" in given(text):
            raise UsageError(f"--optimizer {text}: gamma2 is the centered one's; add centered=1")
        key = None
    if key is None and differs:
        raise UsageError(f"--momentum {optim.momentum:g}: --optimizer {text} has none; leave --momentum out")
    if key in given(text) and differs and optim.momentum != numbers[key]:
        raise UsageError(
            f"--momentum {optim.momentum:g}: --optimizer {text} says {numbers[key]:g}; leave one of them out"
        )
    return Spec(name, numbers if key is None or key in given(text) else {**numbers, key: optim.momentum})
