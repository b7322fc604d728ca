"""Initial weights by name: `--init`. To add one is an entry here, and a function that makes an MXNet initialiser.

Owns their numbers. The functions are in `mxtrain/models/parameters/initializers.py`.
"""

from __future__ import annotations

import dataclasses

from mxtrain.config.components import component
from mxtrain.config.components.component import Component, Number, Spec, by_name


@dataclasses.dataclass(frozen=True)
class Initializer(Component):
    """An initialiser; its factory is called with its numbers."""

    takes_any_shape: bool = False  # also what is no matrix


_OWN, _MXNET = "mxtrain.models.parameters.initializers:", "mxtrain.runtime:mx.init."

INITIALIZERS = by_name(
    Initializer(
        "msra",
        "a normal distribution, variance 2 / (1 + slope^2) / fan-in (He); the default",
        _OWN + "msra",
        {"slope": Number(0.0, 0.0, 1.0)},
    ),
    Initializer("msra_out", "the same with fan-out", _OWN + "msra_out", {"slope": Number(0.0, 0.0, 1.0)}),
    Initializer(
        "xavier",
        "a uniform one within sqrt(magnitude / mean of fan-in and fan-out) (Glorot)",
        _OWN + "xavier",
        {"magnitude": Number(3.0, 1e-6, 100.0)},
    ),
    Initializer(
        "xavier_normal",
        "a normal one of variance magnitude / mean of fan-in and fan-out",
        _OWN + "xavier_normal",
        {"magnitude": Number(1.0, 1e-6, 100.0)},
    ),
    Initializer(
        "normal",
        "a normal one",
        _MXNET + "Normal",
        {"sigma": Number(0.01, 1e-9, 10.0)},
        takes_any_shape=True,
    ),
    Initializer(
        "uniform",
        "a uniform one from -scale to scale",
        _MXNET + "Uniform",
        {"scale": Number(0.07, 1e-9, 10.0)},
        takes_any_shape=True,
    ),
    Initializer(
        "orthogonal",
        "orthogonal rows, or columns, of length `scale`",
        _MXNET + "Orthogonal",
        {"scale": Number(1.0, 1e-6, 10.0)},
    ),
)


def parse(text: str) -> Spec:
    """Parse --init."""
    return component.parse("--init", text, INITIALIZERS)
