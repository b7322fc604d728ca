"""Translations to ONNX of layers: convolutions, dense layers, pooling, norms, activations, resizing."""

from __future__ import annotations

import functools
import math
from typing import Any, Sequence

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.export.onnx.onnx_node import Node, Translation

ACTIVATIONS = {
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "softrelu": "Softplus",
    "softsign": "Softsign",
}


def convolution(node: Node, operator: str = "Conv") -> str:
    if not node.get("layout", "NCHW").startswith("NC") or node.get("target_shape", ()):
        raise node.refused(f"its layout is {node.get('layout', 'NCHW')}, or it has a target_shape")
    kernel = node.get("kernel", ())
    settings = {
        "kernel_shape": kernel,
        "group": node.get("num_group", 1),
        "pads": (node.get("pad", ()) or (0,) * len(kernel)) * 2,
        "strides": node.get("stride", ()) or (1,) * len(kernel),
        "dilations": node.get("dilate", ()) or (1,) * len(kernel),
    }
    if operator == "ConvTranspose" and any(node.get("adj", ())):
        settings["output_padding"] = node.get("adj", ())
    return node.write(operator, list(node.inputs), **settings)


def dense(node: Node) -> str:
    data, weight, *bias = node.inputs
    if node.get("flatten", True):
        if len(node.shapes[0]) > 2:
            data = node.write("Flatten", [data], axis=1)
        return node.write("Gemm", [data, weight, *bias], transB=1)
    product = node.write("MatMul", [data, node.transposed(weight, (1, 0))])
    return node.write("Add", [product, *bias]) if bias else product


def product(node: Node) -> str:
    """Translate products of matrices, alone or a batch of them, some of which are turned."""
    turned = []
    for number, source in enumerate(node.inputs[:2]):
        rank = len(node.shapes[number])
        axes = (*range(rank - 2), rank - 1, rank - 2)
        turned.append(
            node.transposed(source, axes) if node.get(f"transpose_{'ab'[number]}", False) else source
        )
    if node.operator == "dot" and len(node.shapes[1]) > 2:
        raise node.refused("dot with an array of more than two axes")
    if node.operator == "dot" and len(node.shapes[0]) > 2 and node.get("transpose_a", False):
        raise node.refused("dot of an array of more than two axes that is turned")
    found = node.write("MatMul", turned)
    scale = node.get("alpha", 1.0)
    return found if scale == 1 else node.write("Mul", [found, node.constant(scale)])


def pooling(node: Node) -> str:
    pool_type = node.get("pool_type", "max")
    if pool_type not in ("max", "avg"):
        raise node.refused(f"its pool_type is {pool_type}")
    if node.get("global_pool", False):
        return node.write({"max": "GlobalMaxPool", "avg": "GlobalAveragePool"}[pool_type], [node.inputs[0]])
    data, kernel = node.inputs[0], node.get("kernel", ())
    pads = list(node.get("pad", ()) or (0,) * len(kernel))
    strides = node.get("stride", ()) or (1,) * len(kernel)
    sides, outputs = node.shapes[0][2:], node.output[2:]
    # By MXNet's convention `full` the last window may reach beyond the padding; that part never counts in a mean.
    beyond = [
        max(0, (count - 1) * stride + length - side - 2 * pad)
        for side, count, length, stride, pad in zip(sides, outputs, kernel, strides, pads)
    ]
    counts = pool_type == "avg" and node.get("count_include_pad", True)
    if counts and any(beyond) and any(pads):
        data = node.write("Pad", [data, node.numbers([0, 0, *pads] * 2), node.constant(0.0)])
        pads = [0] * len(pads)
    settings = {"kernel_shape": kernel, "strides": strides}
    settings["pads"] = [*pads, *(pad + more for pad, more in zip(pads, beyond))]
    if pool_type == "max":
        return node.write("MaxPool", [data], **settings)
    return node.write("AveragePool", [data], count_include_pad=int(counts and not any(beyond)), **settings)


def adaptive_pooling(node: Node) -> str:
    """Translate by a product with means from both sides, where the output is more than a single mean."""
    sides, wanted = node.shapes[0][2:], node.output[2:]
    if tuple(wanted) == (1, 1):
        return node.write("GlobalAveragePool", [node.inputs[0]])
    rows, columns = (_means(side, count) for side, count in zip(sides, wanted))
    return node.write(
        "MatMul", [node.constant(rows), node.write("MatMul", [node.inputs[0], node.constant(columns.T)])]
    )


def _means(side: int, count: int) -> Array:
    """Return the matrix that makes `count` means of `side` numbers."""
    matrix = np.zeros((count, side), np.float32)
    for number in range(count):
        first, end = number * side // count, -(-(number + 1) * side // count)
        matrix[number, first:end] = 1 / (end - first)
    return matrix


def batch_norm(node: Node) -> str:
    data, gamma, beta, mean, variance = node.inputs[:5]
    if node.get("fix_gamma", True):
        gamma = node.constant(np.ones(node.shapes[1]))
    rank, axis = len(node.shapes[0]), node.get("axis", 1) % len(node.shapes[0])
    order = list(range(rank))
    order[1], order[axis] = axis, 1
    data = data if axis == 1 else node.transposed(data, order)
    inputs = [data, gamma, beta, mean, variance]
    normed = node.write("BatchNormalization", inputs, epsilon=node.get("eps", 1e-3))
    return normed if axis == 1 else node.transposed(normed, order)


def layer_norm(node: Node) -> str:
    data, gamma, beta = node.inputs[:3]
    rank = len(node.shapes[0])
    axis = node.get("axis", -1) % rank
    width = [node.shapes[0][axis], *[1] * (rank - 1 - axis)]
    if axis != rank - 1:
        gamma, beta = (node.reshaped(each, width) for each in (gamma, beta))
    return _normed(node, data, [axis], gamma, beta, node.get("eps", 1e-5))


def group_norm(node: Node) -> str:
    """Translate a norm over groups of channels, each of which has one scale and one shift in MXNet 1.9.1."""
    data, gamma, beta = node.inputs[:3]
    shape, groups = node.shapes[0], node.get("num_groups", 1)
    apart = node.reshaped(data, [shape[0], groups, shape[1] // groups, *shape[2:]])
    axes = list(range(2, len(shape) + 1))
    column = [groups, *[1] * len(axes)]
    gamma, beta = (node.reshaped(each, column) for each in (gamma, beta))
    return node.reshaped(_normed(node, apart, axes, gamma, beta, node.get("eps", 1e-5)), shape)


def instance_norm(node: Node) -> str:
    return node.write("InstanceNormalization", list(node.inputs), epsilon=node.get("eps", 1e-3))


def _normed(node: Node, data: str, axes: Sequence[int], gamma: str, beta: str, eps: float) -> str:
    """Write a norm over axes, in the order in which onnxruntime knows it for one."""
    mean = node.write("ReduceMean", [data], axes=list(axes), keepdims=1)
    apart = node.write("Sub", [data, mean])
    squares = node.write("Pow", [apart, node.constant(2.0)])
    variance = node.write("ReduceMean", [squares], axes=list(axes), keepdims=1)
    deviation = node.write("Sqrt", [node.write("Add", [variance, node.constant(eps)])])
    scaled = node.write("Mul", [node.write("Div", [apart, deviation]), gamma])
    return node.write("Add", [scaled, beta])


def activation(node: Node) -> str:
    act_type = node.get("act_type", "relu")
    if act_type not in ACTIVATIONS:
        raise node.refused(f"its act_type is {act_type}")
    return node.write(ACTIVATIONS[act_type], [node.inputs[0]])


def leaky_relu(node: Node) -> str:
    act_type, data, slope = node.get("act_type", "leaky"), node.inputs[0], node.get("slope", 0.25)
    if act_type == "gelu":
        share = node.write("Erf", [node.write("Div", [data, node.constant(math.sqrt(2))])])
        doubled = node.write("Mul", [data, node.write("Add", [share, node.constant(1.0)])])
        return node.write("Mul", [doubled, node.constant(0.5)])
    if act_type == "prelu":
        column = [math.prod(node.shapes[1]), *[1] * (len(node.shapes[0]) - 2)]
        return node.write("PRelu", [data, node.reshaped(node.inputs[1], column)])
    if act_type == "selu":
        return node.write("Selu", [data])
    if act_type not in ("leaky", "elu"):
        raise node.refused(f"its act_type is {act_type}")
    return node.write({"leaky": "LeakyRelu", "elu": "Elu"}[act_type], [data], alpha=slope)


def hard_sigmoid(node: Node) -> str:
    return node.write(
        "HardSigmoid", [node.inputs[0]], alpha=node.get("alpha", 0.2), beta=node.get("beta", 0.5)
    )


def softmax(node: Node, operator: str = "Softmax") -> str:
    if node.get("use_length", False):
        raise node.refused("it is given lengths")
    data, temperature = node.inputs[0], node.get("temperature", None)
    if temperature not in (None, 1):
        data = node.write("Div", [data, node.constant(temperature)])
    return node.write(operator, [data], axis=node.get("axis", -1))


def softmax_output(node: Node) -> str:
    """Translate the end of older nets: a softmax that learns."""
    return node.write("Softmax", [node.inputs[0]], axis=1 if node.get("multi_output", False) else -1)


def lrn(node: Node) -> str:
    settings = {
        "alpha": node.get("alpha", 1e-4),
        "beta": node.get("beta", 0.75),
        "bias": node.get("knorm", 2.0),
    }
    return node.write("LRN", [node.inputs[0]], size=node.get("nsize", 5), **settings)


def l2_normalization(node: Node) -> str:
    mode = node.get("mode", "instance")
    if mode != "channel":
        raise node.refused(f"it normalises over {mode}s")
    squares = node.write("Mul", [node.inputs[0]] * 2)
    total = node.write("ReduceSum", [squares, node.numbers([1])], keepdims=1)
    length = node.write("Sqrt", [node.write("Add", [total, node.constant(node.get("eps", 1e-10))])])
    return node.write("Div", [node.inputs[0], length])


def up_sampling(node: Node) -> str:
    if node.get("sample_type", "nearest") != "nearest" or len(node.inputs) > 1:
        raise node.refused("it is not of one array by nearest neighbours")
    scale = node.get("scale", 1)
    scales = node.constant([1, 1, scale, scale])
    by_floor: dict[str, Any] = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return node.write("Resize", [node.inputs[0], "", scales], mode="nearest", **by_floor)


def bilinear_resize(node: Node) -> str:
    sides = zip(node.shapes[0][2:], node.output[2:])
    if not node.get("align_corners", True):
        raise node.refused("its corners are not aligned")
    rows, columns = (_interpolated(side, count) for side, count in sides)
    return node.write(
        "MatMul", [node.constant(rows), node.write("MatMul", [node.inputs[0], node.constant(columns.T)])]
    )


def _interpolated(side: int, count: int) -> Array:
    """Return the matrix that makes `count` numbers of `side`, the first and the last of which stay."""
    matrix = np.zeros((count, side), np.float32)
    for number in range(count):
        place = number * (side - 1) / (count - 1) if count > 1 else 0.0
        first = min(int(place), side - 1)
        matrix[number, first] += 1 - (place - first)
        matrix[number, min(first + 1, side - 1)] += place - first
    return matrix


LAYERS: dict[str, Translation] = {
    **{"Convolution": convolution, "Deconvolution": functools.partial(convolution, operator="ConvTranspose")},
    **{"FullyConnected": dense, "dot": product, "batch_dot": product, "_linalg_gemm2": product},
    **{"Pooling": pooling, "_contrib_AdaptiveAvgPooling2D": adaptive_pooling},
    **{"BatchNorm": batch_norm, "_contrib_SyncBatchNorm": batch_norm, "LayerNorm": layer_norm},
    **{"GroupNorm": group_norm, "InstanceNorm": instance_norm, "LRN": lrn},
    **{"Activation": activation, "LeakyReLU": leaky_relu, "hard_sigmoid": hard_sigmoid},
    **{"softmax": softmax, "log_softmax": functools.partial(softmax, operator="LogSoftmax")},
    **{"SoftmaxOutput": softmax_output, "SoftmaxActivation": softmax},
    **{
        "L2Normalization": l2_normalization,
        "UpSampling": up_sampling,
        "_contrib_BilinearResize2D": bilinear_resize,
    },
}
