"""Mixed precision: operators in float16 or bfloat16, and the loss scale that float16 needs.

Owns `--amp` and `--loss-scale`, and the norm that detects overflow. The loss scale is a value that each step replaces;
MXNet's own scaler lags a step, has no lower limit and is not saved. Checks of the hardware are `core/kernels.py`'s.
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

# Operators without a bfloat16 kernel that MXNet's lists leave out.
MORE_FLOAT32_OPS = (
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
MORE_CONDITIONAL_FLOAT32_OPS = (
    ("Activation", "act_type", ["softsign"]),
    ("Pooling", "pool_type", ["lp", "sum"]),
)
SAME_TYPE_OPS = ("concat", "Concat")


def enable_amp(amp: str) -> None:
    """Patch MXNet's operators for the whole process; call it before the net is built."""
    if amp == "off" or mxnet_amp.amp._amp_initialized:
        return
    for module in (mx.nd, mx.sym):
        _cast_data_only(module, "LeakyReLU", act_type="prelu")
    if amp == "fp16":
        mxnet_amp.init("float16")
        return
    # MXNet's lists break some nets; tests/engine/test_precision.py has a net for each correction.
    lists = mxnet_amp.lists.symbol_bf16
    for module in (mx.nd, mx.sym):
        _cast_data_only(module, "Deconvolution")
    lists.WIDEST_TYPE_CASTS.extend(SAME_TYPE_OPS)
    float32 = [name for name in lists.FP32_FUNCS if name != "Deconvolution" and _takes_arrays(name)]
    mxnet_amp.init(
        "bfloat16",
        fp32_ops=[*float32, *MORE_FLOAT32_OPS],
        conditional_fp32_ops=[*lists.CONDITIONAL_FP32_FUNCS, *MORE_CONDITIONAL_FLOAT32_OPS],
    )


def usable_amp(amp: str, kind: str) -> str:
    """Return `amp`, or `off` if a device of this kind (cpu, gpu) cannot; weights are float32 in any case."""
    if names.AMP_DEVICES.get(amp, kind) != kind or (amp == "bf16" and kernels.bf16_problem()):
        return "off"
    return amp


def _takes_arrays(name: str) -> bool:
    """Return whether an operator has inputs to cast; one without fails with a cast once it is hybridized."""
    types = mx.operator.get_operator_arguments(name).types
    return not types or any("Symbol" in each for each in types)


def _cast_data_only(module: Any, name: str, **only: str) -> None:
    """Patch an operator to cast its input to float32, the type of its weight.

    With MXNet's lists PReLU gets two types; and they cast the weight of a deconvolution too, from float32 to float32,
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


def l2_norm(arrays: Sequence[Any]) -> float:
    """Return the L2 norm of all arrays as one vector; not finite if any element or the square of one is not.

    Squares overflow float32 from a norm of 1.8e19 on, which is wanted: Adam would keep an infinite mean for good.
    MXNet's multi_sum_sq costs the same, but adds in float32 one by one: 100 million ones come to 2**24.
    multi_all_finite takes fifteen times as long on a CPU.
    """
    flat = [sparse_rows.stored_values(array) for array in arrays]
    squares = [mx.nd.dot(array, array) for array in flat if array.size]
    return math.sqrt(mx.nd.concat(*squares, dim=0).asnumpy().sum(dtype="float64")) if squares else 0.0


def all_finite(arrays: Sequence[Any]) -> bool:
    """Return whether all elements, and the sum of their squares, are finite."""
    return math.isfinite(l2_norm(arrays))
