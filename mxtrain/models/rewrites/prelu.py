"""The right gradient of PReLU's slope, which MXNet 1.9.1 gets wrong in compiled nets.

There MXNet lets the gradient of the input overwrite that of the output before it computes the slope's from it. The
slope's gradient so comes out multiplied by the slope: 0.25 of what it should be at first, and 0 for good at 0.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

from mxtrain.runtime import mx

_original = mx.gluon.nn.PReLU.hybrid_forward


def patch() -> None:
    """Make Gluon's PReLU compute the right gradient of its slope, for the whole process."""
    mx.gluon.nn.PReLU.hybrid_forward = _forward


@contextlib.contextmanager
def as_one_node() -> Iterator[None]:
    """A block in which nets are traced with Gluon's own PReLU: where no gradient is wanted, the value is the same."""
    before = mx.gluon.nn.PReLU.hybrid_forward
    mx.gluon.nn.PReLU.hybrid_forward = _original
    try:
        yield
    finally:
        mx.gluon.nn.PReLU.hybrid_forward = before


def _forward(self: Any, F: Any, x: Any, alpha: Any) -> Any:
    """Compute PReLU by two nodes, one for the gradient of the input and one, whose value is 0, for the slope's."""
    output = F.LeakyReLU(x, F.BlockGrad(alpha), act_type="prelu")
    for_slope = F.LeakyReLU(F.BlockGrad(x), alpha, act_type="prelu")
    return output + (for_slope - F.BlockGrad(for_slope))
