"""Which parameters decay.

A bias and the scale and shift of a norm are not what weight decay is for: decaying them regularises nothing.
"""

from __future__ import annotations

from typing import Any, Iterable

# Gluon's layers and GluonCV's nets; the last is a table of relative positions, as in Swin.
NAME_ENDINGS = ("bias", "gamma", "beta", "bias_table")


def exempt_from_decay(parameters: Iterable[Any]) -> None:
    """Tell those that do not decay."""
    for parameter in parameters:
        if is_bias_or_norm(parameter):
            parameter.wd_mult = 0.0


def is_bias_or_norm(parameter: Any) -> bool:
    """By its name, or because it is no matrix or kernel: PReLU's alpha, a residual branch's scale, a custom norm's."""
    return len(parameter.shape) < 2 or parameter.name.endswith(NAME_ENDINGS)
