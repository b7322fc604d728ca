"""Layers of mobile nets that answer: convolutions with the norm and the activation behind them."""

from __future__ import annotations

from typing import Callable, Iterator, NamedTuple

from mxtrain.models.rewrites import hard_sigmoids, norm_relus
from mxtrain.models.rewrites.graph_rewrites import numbers
from mxtrain.models.rewrites.norm_relus import OF_PICTURES
from mxtrain.models.rewrites.own import channel_runs
from mxtrain.models.rewrites.own.answering_graphs import Net
from mxtrain.models.rewrites.own.channel_runs import HARD_SWISH, IDENTITY, RELU, RELU6

DEPTHWISE_KERNELS = (3, 5)
MOST_COLOURS = 4  # of what a first convolution takes


class Layer(NamedTuple):
    """A convolution with the norm, if any, and the activation behind it, up to the node `end`."""

    convolution: int
    norm: int | None
    activation: str
    end: int


def layers(net: Net, is_ours: Callable[[Net, int], bool]) -> Iterator[Layer]:
    """Yield the convolutions of a kind with the norms behind them."""
    for place in range(len(net.graph["nodes"])):
        norm = net.only_user(place) if is_ours(net, place) else None
        if norm is not None and norm_relus.is_norm(net.graph, net.shapes, norm):
            of_norm = net.node(norm)["inputs"][1:]
            if all(net.node(source)["op"] == "null" for source, *_ in of_norm):
                yield Layer(place, norm, *activation_behind(net, norm))


def _has_weights(net: Net, place: int) -> bool:
    """Return whether a convolution has weights that are a variable, and no bias."""
    is_variable = net.node(net.node(place)["inputs"][1][0])["op"] == "null"
    return is_variable and net.attributes(place).get("no_bias", "False") == "True"


def is_pointwise(net: Net, place: int) -> bool:
    """Return whether this is a convolution of 1 x 1 with each place of a picture."""
    return (
        net.is_product(place)
        and len(net.shape(net.node(place)["inputs"][0])) == OF_PICTURES
        and (numbers(net.attributes(place), "stride") or (1, 1)) == (1, 1)
        and _has_weights(net, place)
    )


def is_depthwise(net: Net, place: int) -> bool:
    return (
        channel_runs.is_depthwise(net.graph, net.shapes, place)
        and numbers(net.attributes(place), "kernel")[0] in DEPTHWISE_KERNELS
        and _has_weights(net, place)
    )


def is_first(net: Net, place: int) -> bool:
    """Return whether this is a convolution of the few colours of pictures."""
    if not net.is_convolution(place):
        return False
    attributes, data = net.attributes(place), net.shape(net.node(place)["inputs"][0])
    kernel, stride, pad = (numbers(attributes, name) for name in ("kernel", "stride", "pad"))
    return (
        len(data) == OF_PICTURES
        and 0 < data[1] <= MOST_COLOURS
        and len(set(kernel)) == len(set(stride or (1,))) == len(set(pad or (0,))) == 1
        and (pad or (0,))[0] < kernel[0]
        and (numbers(attributes, "dilate") or (1, 1)) == (1, 1)
        and _has_weights(net, place)
    )


def activation_behind(net: Net, norm: int) -> tuple[str, int]:
    """Return the activation that takes a norm's output, and the node that ends with it."""
    users = net.users.get(norm, [])
    swish = hard_sigmoids.hard_swish(net.graph["nodes"], users, net.only_user)
    if swish is not None and norm not in net.outputs:
        return HARD_SWISH, swish
    user = net.only_user(norm)
    if user is not None and net.is_relu(user):
        return RELU, user
    if user is not None and net.node(user)["op"] == "clip":
        limits = (float(net.attributes(user)["a_min"]), float(net.attributes(user)["a_max"]))
        return (RELU6, user) if limits == (0, 6) else (IDENTITY, norm)
    return IDENTITY, norm


def dense_layers(net: Net, means: int) -> Iterator[Layer]:
    """Yield the convolutions, each of which alone takes what is before it, of these means and of each other."""
    end, user = means, net.only_user(means)
    while user is not None and net.is_product(user):
        if any(net.node(source)["op"] != "null" for source, *_ in net.node(user)["inputs"][1:]):
            return
        activation, end = activation_behind(net, user)
        yield Layer(user, None, activation, end)
        user = net.only_user(end)
