"""Parameters without weight decay: biases, and the scales and shifts of norms, whose decay regularises nothing.

Owns that choice; the decay itself is part of each optimizer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterable

if TYPE_CHECKING:
    from mxtrain.runtime.types import Parameter

# Gluon's layers and GluonCV's nets; the last is a table of relative positions, as in Swin.
NAME_ENDINGS = ("bias", "gamma", "beta", "bias_table")


def exempt_from_decay(parameters: Iterable[Parameter]) -> None:
    """Set the decay of biases and norms to zero."""
    for parameter in parameters:
        if is_bias_or_norm(parameter):
            parameter.wd_mult = 0.0


def is_bias_or_norm(parameter: Parameter) -> bool:
    """Return whether the parameter is a bias or a norm's, by its name, or has fewer than two dimensions.

    The latter are PReLU's alpha, the scale of a residual branch and parameters of custom norms.
    """
    return len(parameter.shape) < 2 or parameter.name.endswith(NAME_ENDINGS)
