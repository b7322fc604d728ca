"""The ranges of sums in int8 that MXNet adds into an operand of another type.

Owns finding and widening them. A convolution joined to a sum and a ReLU gives uint8, but computes in the type of
the sum's other operand: where that is int8, all above half of the uint8 range is cut off. In a range of twice the width
nothing lies up there. What must not be joined at all is `joined_convolutions.py`'s.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Mapping

import numpy as np

from mxtrain.export.int8.calibration import array_name
from mxtrain.runtime import mx

if TYPE_CHECKING:
    from mxtrain.runtime.types import Symbol

CONVOLUTION = "_sg_mkldnn_conv"
RANGE = "max_calib_range"
WIDER = 255 / 127  # by how many numbers uint8 has more than int8
OPERAND = (
    -5
)  # the place of the sum's other operand among a node's inputs: each of two arrays' ranges are two more


def with_wide_ranges(symbol: Symbol, weights: Mapping[str, Any]) -> Symbol:
    """Return a graph in int8, with its ranges, in which no sum is cut off; what is no weight is float32."""
    internals = symbol.get_internals()
    _, types, _ = internals.infer_type(
        **{name: weights[name].dtype if name in weights else np.float32 for name in symbol.list_inputs()}
    )
    type_of = dict(zip(internals.list_outputs(), types))
    whole = json.loads(symbol.tojson())
    for node in whole["nodes"]:
        if _is_sum_of_relu(node):
            source, output, *_ = node["inputs"][OPERAND]
            if type_of[array_name(whole["nodes"][source], output, type_of)] is np.int8:
                node["attrs"][RANGE] = f"{float(node['attrs'][RANGE]) * WIDER:f}"
    widened: Symbol = mx.sym.load_json(json.dumps(whole))
    return widened


def _is_sum_of_relu(node: Mapping[str, Any]) -> bool:
    attributes = node.get("attrs", {})
    return node["op"] == CONVOLUTION and all(
        str(attributes.get(each)).lower() == "true" for each in ("quantized", "with_sum", "with_postsum_act")
    )
