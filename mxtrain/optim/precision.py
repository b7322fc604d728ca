"""Mixed precision: operators in float16 or bfloat16, and the loss scale that float16 needs.

Owns `--amp` and `--loss-scale`, and the norm that detects overflow; which operators run in bfloat16 on a CPU is
`models/autocast/autocast.py`'s. The loss scale is a value that each step replaces;
MXNet's own scaler lags a step, has no lower limit and is not saved. Checks of the hardware are
`core/system/kernels.py`'s.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import sys
from typing import Any, Iterator, Sequence

import numpy as np

from mxtrain.config import Model, autocast_costs
from mxtrain.config.components import choices
from mxtrain.core.system import kernels
from mxtrain.data.fields import Array
from mxtrain.models.autocast.autocast import Autocast
from mxtrain.optim.sums import squares
from mxtrain.runtime import amp as mxnet_amp
from mxtrain.runtime import mx
from mxtrain.runtime.types import NDArray

LEAST_GAIN = 1.1  # times as fast as float32, by the table; less is not sure to be a gain


@contextlib.contextmanager
def casting(amp: str) -> Iterator[None]:
    """A block in which MXNet's operators cast to float16 where `amp` says so: nets are built and computed inside.

    Nets that are compiled stay as they are. For bfloat16, which is a rewrite of graphs, nothing is done.
    """
    if amp != "fp16" or mxnet_amp.amp._amp_initialized:
        yield
        return
    before = {module: dict(vars(module)) for module in _modules_of_operators()}
    try:
        for module in (mx.nd, mx.sym):
            _cast_prelu(module)
        mxnet_amp.init("float16")
        yield
    finally:
        for module, attributes in before.items():
            vars(module).update(attributes)
        mxnet_amp.amp._amp_initialized = False


def _modules_of_operators() -> list[Any]:
    """Return the modules in which AMP replaces functions: the namespaces of operators, on arrays and on symbols."""
    roots = mx.nd.__name__, mx.sym.__name__
    return [
        module
        for name, module in sorted(sys.modules.items())
        if name.startswith(roots) and module is not None
    ]


def usable_amp(amp: str, device_type: str) -> str:
    """Return `amp`, or `off` if a device of this kind (cpu, gpu) cannot; weights are float32 in any case."""
    if choices.AMP_DEVICES.get(amp, device_type) != device_type or (
        amp in ("bf16", "auto") and kernels.bf16_problem()
    ):
        return "off"
    return amp


def autocast_of(model: Model, device_type: str) -> Autocast | None:
    """Return what chooses the operators that run in bfloat16 on a device of this kind; None where none does."""
    if device_type != "cpu" or usable_amp(model.amp, device_type) == "off":
        return None
    times = autocast_costs.of_run(model.amp, model.amp_table)
    return Autocast(times, LEAST_GAIN) if times else None


def summary(amp: str, device_type: str, chosen: Autocast | None) -> str:
    """Return a line about what `--amp bf16` or `--amp auto` comes to."""
    if chosen is None:
        problem = kernels.bf16_problem() or f"the table knows no times of {kernels.onednn()}"
        remedy = problem if device_type == "cpu" else "on a GPU give --amp fp16 to have it narrow"
        return f"--amp {amp}: float32; {remedy}"
    forecast = chosen.forecast
    if not forecast.narrow_flops:
        return f"--amp {amp}: float32, as by the table bfloat16 gains too little in this net on this CPU"
    return (
        f"--amp {amp}: {forecast.share:.1%} of the FLOPs run in bfloat16; by the table (hash {chosen.times.digest}) "
        f"steps are {forecast.speed:.2f} times as fast as in float32"
    )


def _cast_prelu(module: Any) -> None:
    """Patch PReLU to cast its input to float32, the type of its slope; with MXNet's lists it gets two types."""
    operator = module.LeakyReLU

    def of_float32(data: Any, *weights: Any, **settings: Any) -> Any:
        if settings.get("act_type") == "prelu":
            data = module.amp_cast(data, dtype="float32")
        return operator(data, *weights, **settings)

    module.LeakyReLU = of_float32


@dataclasses.dataclass(frozen=True)
class LossScale:
    """The factor of the loss before its backward pass, by which gradients are divided after it.

    A dynamic scale doubles after `growth_interval` clean steps, halves on overflow, and never leaves [1, 2**24].
    """

    scale: float = 1.0
    clean_steps: int = 0
    dynamic: bool = False
    growth_interval: int = 2000

    def updated(self, is_finite: bool) -> LossScale:
        """Return the next step's scale, given whether this step's gradients were finite."""
        if not self.dynamic:
            return self
        if not is_finite:
            return dataclasses.replace(self, scale=max(1.0, self.scale / 2), clean_steps=0)
        if self.clean_steps + 1 < self.growth_interval:
            return dataclasses.replace(self, clean_steps=self.clean_steps + 1)
        return dataclasses.replace(self, scale=min(2.0**24, self.scale * 2), clean_steps=0)

    def can_decrease(self) -> bool:
        """Return whether a smaller scale is possible and may avoid an overflow."""
        return self.dynamic and self.scale > 1.0


def initial_loss_scale(amp: str, wanted: str) -> LossScale:
    """Return the first scale of `--loss-scale`; bfloat16 has float32's range and needs none, unlike float16."""
    if wanted == "dynamic" or (wanted == "auto" and amp == "fp16"):
        return LossScale(scale=2.0**16, dynamic=True)
    return LossScale() if wanted == "auto" else LossScale(scale=float(wanted))


def l2_norm(arrays: Sequence[NDArray]) -> float:
    """Return the L2 norm of all arrays as one vector; not finite if any element or the square of one is not.

    Squares overflow float32 from a norm of 1.8e19 on, which is wanted: Adam would keep an infinite mean for good.
    """
    return norm_of(squares.squares(arrays))


def norm_of(squares_of_arrays: Array) -> float:
    """Return the L2 norm of arrays with these squares."""
    return math.sqrt(squares_of_arrays.sum(dtype=np.float64))


def lengths(arrays: Sequence[NDArray]) -> list[float]:
    """Return the L2 norm of each array, computed as `l2_norm` does."""
    return [math.sqrt(square) for square in squares.squares(arrays)]


def all_finite(arrays: Sequence[NDArray]) -> bool:
    """Return whether all elements, and the sum of their squares, are finite."""
    return math.isfinite(l2_norm(arrays))
