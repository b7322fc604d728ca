"""Which losses and initialisers there are, and the numbers that each takes; read before mxnet loads.

The code behind a name is in `losses.py` and `initializers.py`.
"""

from __future__ import annotations

from mxtrain.config import spec
from mxtrain.config.spec import Number, Spec

LOSSES: dict[str, dict[str, Number]] = {
    "cross_entropy": {},
    "binary_cross_entropy": {},
    # Below 1 the slope at a sample that is wholly right would be infinite.
    "focal": {"gamma": Number(2.0, 1.0, 10.0)},
}
SMOOTHED = ("cross_entropy", "binary_cross_entropy")  # the losses that know --label-smoothing

INITIALIZERS: dict[str, dict[str, Number]] = {
    "msra": {"slope": Number(0.0, 0.0, 1.0)},
    "msra_out": {"slope": Number(0.0, 0.0, 1.0)},
    "xavier": {"magnitude": Number(3.0, 1e-6, 100.0)},
    "xavier_normal": {"magnitude": Number(1.0, 1e-6, 100.0)},
    "normal": {"sigma": Number(0.01, 1e-9, 10.0)},
    "uniform": {"scale": Number(0.07, 1e-9, 10.0)},
    "orthogonal": {"scale": Number(1.0, 1e-6, 10.0)},
}


def loss(text: str) -> Spec:
    return spec.parse("--loss", text, LOSSES)


def initializer(text: str) -> Spec:
    return spec.parse("--init", text, INITIALIZERS)
