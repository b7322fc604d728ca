"""The waits of a sampled step, by which forward, loss and backward are told apart.

MXNet computes beside Python, and begins with the loss before the forward pass has ended. Only results are waited for,
so other devices compute on, and no bit moves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Callable, TypeVar

from mxtrain.train.telemetry.stage_clock import StageClock

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block

Computed = TypeVar("Computed")


def time_stages(compute: Callable[[], Computed], net: Block, clock: StageClock) -> Computed:
    """Return what `compute` makes by the net, as often as it calls it, once that is computed.

    The time until the net has answered becomes `forward`, and the rest `loss`: all of it where the task calls parts of
    the net only. What was before, such as adding earlier gradients, belongs to `backward`.
    """
    clock.lap("backward")

    def wait(block: Block, inputs: object, output: object) -> None:
        _wait_for(output)
        clock.lap("forward")

    hook = net.register_forward_hook(wait)
    try:
        computed = compute()
    finally:
        hook.detach()
    _wait_for(computed)
    clock.lap("loss")
    return computed


def _wait_for(output: object) -> None:
    """Wait for an array, or all those in sequences and dicts."""
    if hasattr(output, "wait_to_read"):
        output.wait_to_read()
    elif isinstance(output, dict):
        _wait_for(list(output.values()))
    elif isinstance(output, (list, tuple)):
        for each in output:
            _wait_for(each)
