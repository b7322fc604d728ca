"""The right gradient of PReLU's slope, which MXNet 1.9.1 gets wrong in compiled nets.

There MXNet lets the gradient of the input overwrite that of the output before it computes the slope's from it. The
slope's gradient so comes out multiplied by the slope: 0.25 of what it should be at first, and 0 for good at 0.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, ContextManager, Iterator

from mxtrain.runtime import mx

_original = mx.gluon.nn.PReLU.hybrid_forward


def repaired() -> ContextManager[None]:
    """A block in which Gluon's PReLU computes the right gradient of its slope."""
    return _computed_by(_forward)


def as_one_node() -> ContextManager[None]:
    """A block in which nets are traced with Gluon's own PReLU: where no gradient is wanted, the value is the same."""
    return _computed_by(_original)


@contextlib.contextmanager
def _computed_by(forward: Callable[..., Any]) -> Iterator[None]:
    before = mx.gluon.nn.PReLU.hybrid_forward
    mx.gluon.nn.PReLU.hybrid_forward = forward
    try:
        yield
    finally:
        mx.gluon.nn.PReLU.hybrid_forward = before


def _forward(self: Any, F: Any, x: Any, alpha: Any) -> Any:
    """Compute PReLU by two nodes, one for the gradient of the input and one, whose value is 0, for the slope's."""
    output = F.LeakyReLU(x, F.BlockGrad(alpha), act_type="prelu")
    for_slope = F.LeakyReLU(F.BlockGrad(x), alpha, act_type="prelu")
    return output + (for_slope - F.BlockGrad(for_slope))
