"""Mixed precision: which operators run narrow, and the loss scale that float16 needs.

Owns `--amp` and `--loss-scale`. The loss scale is a pure value that the step hands on; MXNet's own scaler lags a
step, has no floor and is not saved.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Sequence

from mxtrain.runtime import amp as mxnet_amp
from mxtrain.runtime import mx

# MXNet's bf16 lists cast the result of operators that take no input, which breaks them once hybridized.
NO_INPUT = {"_zeros", "_ones", "_full", "_arange", "_eye", "_linspace"}


def enable(amp: str) -> None:
    """Patch MXNet's operators for this whole process; must come before the net is built."""
    if amp == "bf16":
        lists = mxnet_amp.lists.symbol_bf16
        mxnet_amp.init("bfloat16", fp32_ops=[name for name in lists.FP32_FUNCS if name not in NO_INPUT])
    elif amp == "fp16":
        mxnet_amp.init("float16")


@dataclasses.dataclass(frozen=True)
class LossScale:
    """What the loss is multiplied by before its backward pass, and its gradients divided by after it.

    A dynamic one doubles after `growth_interval` clean steps, halves on overflow, and never leaves [1, 2**24].
    """

    scale: float = 1.0
    clean_steps: int = 0
    dynamic: bool = False
    growth_interval: int = 2000

    def after(self, finite: bool) -> LossScale:
        if not self.dynamic:
            return self
        if not finite:
            return dataclasses.replace(self, scale=max(1.0, self.scale / 2), clean_steps=0)
        if self.clean_steps + 1 < self.growth_interval:
            return dataclasses.replace(self, clean_steps=self.clean_steps + 1)
        return dataclasses.replace(self, scale=min(2.0**24, self.scale * 2), clean_steps=0)

    def may_fall(self) -> bool:
        """Whether an overflow is the scale's fault: a smaller one may cure it."""
        return self.dynamic and self.scale > 1.0


def loss_scale(amp: str, wanted: str) -> LossScale:
    """The scale that `--loss-scale` means; float16 overflows easily, bfloat16 has float32's range and needs none."""
    if wanted == "dynamic" or (wanted == "auto" and amp == "fp16"):
        return LossScale(scale=2.0**16, dynamic=True)
    return LossScale() if wanted == "auto" else LossScale(scale=float(wanted))


def norm(arrays: Sequence[Any]) -> float:
    """The length of all arrays as one vector; not finite where any number in them is not.

    MXNet's multi_sum_sq costs the same, but adds in float32 one by one: 100 million ones come to 2**24.
    multi_all_finite takes fifteen times as long on CPU.
    """
    flat = [array.reshape((-1,)) for array in arrays]
    squares = mx.nd.concat(*[mx.nd.dot(array, array) for array in flat], dim=0)
    return math.sqrt(squares.asnumpy().sum(dtype="float64"))


def all_finite(arrays: Sequence[Any]) -> bool:
    return math.isfinite(norm(arrays))
