"""Mixed precision: which operators run narrow, and the loss scale that float16 needs.

Owns `--amp` and `--loss-scale`. The loss scale is a pure value that the step hands on; MXNet's own scaler lags a
step, has no floor and is not saved.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Sequence

from mxtrain.config import names
from mxtrain.core import kernels
from mxtrain.models import sparse_rows
from mxtrain.runtime import amp as mxnet_amp
from mxtrain.runtime import mx

# What MXNet's lists for bfloat16 leave out, though its kernels know no bfloat16.
FLOAT32_TOO = (
    "_contrib_interleaved_matmul_selfatt_qk",
    "_contrib_interleaved_matmul_selfatt_valatt",
    "_contrib_interleaved_matmul_encdec_qk",
    "_contrib_interleaved_matmul_encdec_valatt",
    "_contrib_ModulatedDeformableConvolution",
    "_contrib_RROIAlign",
    "_contrib_arange_like",
    "_contrib_round_ste",
    "_contrib_sign_ste",
    "col2im",
    "cumsum",
    "im2col",
)
FLOAT32_FOR_SOME = (("Activation", "act_type", ["softsign"]), ("Pooling", "pool_type", ["lp", "sum"]))
ONE_TYPE = ("concat", "Concat")


def enable_amp(amp: str) -> None:
    """Patch MXNet's operators for this whole process; must come before the net is built."""
    if amp == "off" or mxnet_amp.amp._amp_initialized:
        return
    for module in (mx.nd, mx.sym):
        _cast_data_only(module, "LeakyReLU", act_type="prelu")
    if amp == "fp16":
        mxnet_amp.init("float16")
        return
    # MXNet's lists, put right where they break a net; tests/engine/test_precision.py has a net for each cure.
    lists = mxnet_amp.lists.symbol_bf16
    for module in (mx.nd, mx.sym):
        _cast_data_only(module, "Deconvolution")
    lists.WIDEST_TYPE_CASTS.extend(ONE_TYPE)
    float32 = [name for name in lists.FP32_FUNCS if name != "Deconvolution" and _takes_arrays(name)]
    mxnet_amp.init(
        "bfloat16",
        fp32_ops=[*float32, *FLOAT32_TOO],
        conditional_fp32_ops=[*lists.CONDITIONAL_FP32_FUNCS, *FLOAT32_FOR_SOME],
    )


def usable_amp(amp: str, kind: str) -> str:
    """What a net that was trained with `amp` computes with on a cpu or gpu; its weights are float32 anyway."""
    if names.AMP_DEVICES.get(amp, kind) != kind or (amp == "bf16" and kernels.bf16_problem()):
        return "off"
    return amp


def _takes_arrays(name: str) -> bool:
    """Operators that make arrays out of nothing have no input to cast, and fail for it once hybridized."""
    types = mx.operator.get_operator_arguments(name).types
    return not types or any("Symbol" in each for each in types)


def _cast_data_only(module: Any, name: str, **only: str) -> None:
    """What comes in becomes float32, as the weight is.

    MXNet's lists leave PReLU with two types. They cast the weight of a deconvolution too, from float32 to float32,
    after which its backward pass crashes the process.
    """
    operator = getattr(module, name)

    def of_float32(data: Any, *weights: Any, **settings: Any) -> Any:
        if all(settings.get(key) == value for key, value in only.items()):
            data = module.amp_cast(data, dtype="float32")
        return operator(data, *weights, **settings)

    setattr(module, name, of_float32)


@dataclasses.dataclass(frozen=True)
class LossScale:
    """What the loss is multiplied by before its backward pass, and its gradients divided by after it.

    A dynamic one doubles after `growth_interval` clean steps, halves on overflow, and never leaves [1, 2**24].
    """

    scale: float = 1.0
    clean_steps: int = 0
    dynamic: bool = False
    growth_interval: int = 2000

    def updated(self, finite: bool) -> LossScale:
        if not self.dynamic:
            return self
        if not finite:
            return dataclasses.replace(self, scale=max(1.0, self.scale / 2), clean_steps=0)
        if self.clean_steps + 1 < self.growth_interval:
            return dataclasses.replace(self, clean_steps=self.clean_steps + 1)
        return dataclasses.replace(self, scale=min(2.0**24, self.scale * 2), clean_steps=0)

    def can_decrease(self) -> bool:
        """Whether an overflow is the scale's fault: a smaller one may cure it."""
        return self.dynamic and self.scale > 1.0


def initial_loss_scale(amp: str, wanted: str) -> LossScale:
    """The scale that `--loss-scale` means; float16 overflows easily, bfloat16 has float32's range and needs none."""
    if wanted == "dynamic" or (wanted == "auto" and amp == "fp16"):
        return LossScale(scale=2.0**16, dynamic=True)
    return LossScale() if wanted == "auto" else LossScale(scale=float(wanted))


def l2_norm(arrays: Sequence[Any]) -> float:
    """The length of all arrays as one vector; not finite where any number in them is not, or their squares are not.

    Squares leave float32 from a length of 1.8e19 on, which is as well: Adam would keep an infinite one for good.
    MXNet's multi_sum_sq costs the same, but adds in float32 one by one: 100 million ones come to 2**24.
    multi_all_finite takes fifteen times as long on CPU.
    """
    flat = [sparse_rows.stored_values(array) for array in arrays]
    squares = [mx.nd.dot(array, array) for array in flat if array.size]
    return math.sqrt(mx.nd.concat(*squares, dim=0).asnumpy().sum(dtype="float64")) if squares else 0.0


def all_finite(arrays: Sequence[Any]) -> bool:
    return math.isfinite(l2_norm(arrays))
