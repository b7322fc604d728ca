"""Which net a state_dict of torchvision or timm is of, and what each layer is called there.

Owns these names for residual nets, densenets, vggs and mobilenets, from a layer's place in the net here to its place in
torch's; the other way round is the same list read backwards. Needs neither torch nor mxnet.
"""

from __future__ import annotations

import re
from typing import Callable, Collection, Iterable, Mapping, NamedTuple, Sequence, Tuple

Shape = Tuple[int, ...]
TORCHVISION, TIMM = "torchvision", "timm"
SCHEMES = (TORCHVISION, TIMM)
USUAL_SIZE = 224


class Known(NamedTuple):
    """A net and what it is called: as `--model` here, there, and the functions of its layers' names."""

    model: str
    torchvision: str
    timm: str
    family: str


def _known() -> Sequence[Known]:
    known = []
    for depth in (18, 34, 50, 101, 152):
        known.append(Known(f"resnet{depth}_v1b", f"resnet{depth}", f"resnet{depth}", "resnet"))
    for variant in "cds":  # v1e is v1d with another stem, which timm has not
        for depth in (50, 101, 152):
            known.append(Known(f"resnet{depth}_v1{variant}", "", f"resnet{depth}{variant}", "resnet"))
    known += [
        Known(f"torchvision/{wide}", wide, wide, "resnet") for wide in ("wide_resnet50_2", "wide_resnet101_2")
    ]
    known += [
        Known(f"resnet{depth}_v1", f"resnet{depth}", f"resnet{depth}", "resnet by place")
        for depth in (18, 34)
    ]
    for name in ("resnext50_32x4d", "resnext101_32x4d", "resnext101_64x4d"):
        known.append(Known(name, "" if name == "resnext101_32x4d" else name, name, "resnet by place"))
    for name in ("densenet121", "densenet161", "densenet169", "densenet201"):
        known += [Known(prefix + name, name, name, "densenet") for prefix in ("torchvision/", "")]
    for name in (f"vgg{depth}{norm}" for depth in (11, 13, 16, 19) for norm in ("", "_bn")):
        known += [Known(prefix + name, name, name, "vgg") for prefix in ("torchvision/", "")]
    for model in ("torchvision/mobilenet_v2", "mobilenetv2_1.0"):
        known.append(Known(model, "mobilenet_v2", "mobilenetv2_100", "mobilenetv2"))
    for size in ("large", "small"):
        there = f"mobilenet_v3_{size}", f"mobilenetv3_{size}_100"
        for model in (f"torchvision/mobilenet_v3_{size}", f"timm/mobilenetv3_{size}_100"):
            known.append(Known(model, *there, "mobilenetv3"))
    # GluonCV's small one has 1280 channels before its head, torch's 1024.
    known.append(Known("mobilenetv3_large", "mobilenet_v3_large", "mobilenetv3_large_100", "mobilenetv3"))
    return known


KNOWN = {known.model: known for known in _known()}


def name_there(model: str, scheme: str) -> str:
    """Return what the library calls the net; an empty string where it has none."""
    return KNOWN[model].torchvision if scheme == TORCHVISION else KNOWN[model].timm


def needs_size(model: str, scheme: str) -> int:
    """Return the one size of pictures for which the net here and the library's are the same; 0 where all are fine.

    GluonCV's densenets and vggs, and timm's vggs, go on from their last map of 7x7 pixels in ways of their own where
    that is larger.
    """
    family = KNOWN[model].family
    if "/" not in model:
        return USUAL_SIZE if family in ("vgg", "densenet") else 0
    return USUAL_SIZE if family == "vgg" and scheme == TIMM else 0


def head_layer(model: str) -> str:
    """Return the place of the layer that gives the classes."""
    of_family = {"resnet": "fc", "mobilenetv2": "output.0", "mobilenetv3": "output.0"}
    return of_family.get(KNOWN[model].family, "output")


def layer_names(model: str, scheme: str, layers: Collection[str]) -> dict[str, str]:
    """Return for each of the net's `layers`, as `features.0`, what the library calls it."""
    of_family = FAMILIES[KNOWN[model].family]
    return {layer: of_family(tuple(layer.split(".")), scheme, layers) for layer in layers}


def _resnet(parts: Sequence[str], scheme: str, layers: Collection[str]) -> str:
    return ".".join(parts)


_IN_BODY = {"0": "conv1", "1": "bn1", "3": "conv2", "4": "bn2", "6": "conv3", "7": "bn3"}


def _resnet_by_place(parts: Sequence[str], scheme: str, layers: Collection[str]) -> str:
    if parts[0] == "output":
        return "fc"
    if len(parts) == 2:
        return {"0": "conv1", "1": "bn1"}[parts[1]]
    _, stage, block, part, place = parts
    inner = _IN_BODY[place] if part == "body" else f"{part}.{place}"
    return f"layer{int(stage) - 3}.{block}.{inner}"


def _densenet(parts: Sequence[str], scheme: str, layers: Collection[str]) -> str:
    if parts[0] == "output":
        return "classifier"
    place = int(parts[1])
    if len(parts) == 2:
        return "features." + {0: "conv0", 1: "norm0", 11: "norm5"}[place]
    if len(parts) == 3:
        return f"features.transition{(place - 3) // 2}." + {"0": "norm", "2": "conv"}[parts[2]]
    inner = {"0": "norm1", "2": "conv1", "3": "norm2", "5": "conv2"}[parts[4]]
    return f"features.denseblock{(place - 2) // 2}.denselayer{int(parts[2]) + 1}.{inner}"


def _vgg(parts: Sequence[str], scheme: str, layers: Collection[str]) -> str:
    if parts[0] == "output":
        return "classifier.6" if scheme == TORCHVISION else "head.fc"
    places = sorted({int(layer.split(".")[1]) for layer in layers if layer.startswith("features.")})
    dense = {str(places[-2]): 0, str(places[-1]): 1}  # behind all convolutions
    if parts[1] in dense:
        number = dense[parts[1]]
        return f"classifier.{3 * number}" if scheme == TORCHVISION else f"pre_logits.fc{number + 1}"
    return ".".join(parts)


def _in_stages(block: int, sizes: Iterable[int]) -> str:
    """Return the place of a block, counted through, in stages of these sizes."""
    for stage, size in enumerate(sizes):
        if block < size:
            return f"blocks.{stage}.{block}"
        block -= size
    raise KeyError(block)


_V2_STAGES = (1, 2, 3, 4, 3, 3, 1)
_V2_ENDS = {0: ("0.0", "conv_stem"), 1: ("0.1", "bn1"), 20: ("18.0", "conv_head"), 21: ("18.1", "bn2")}
_V2_FIRST = {"0": ("0.0", "conv_dw"), "1": ("0.1", "bn1"), "3": ("1", "conv_pw"), "4": ("2", "bn2")}
_V2_BLOCK = {
    **{"0": ("0.0", "conv_pw"), "1": ("0.1", "bn1"), "3": ("1.0", "conv_dw"), "4": ("1.1", "bn2")},
    **{"6": ("2", "conv_pwl"), "7": ("3", "bn3")},
}


def _mobilenetv2(parts: Sequence[str], scheme: str, layers: Collection[str]) -> str:
    column = SCHEMES.index(scheme)
    if parts[0] == "output":
        return ("classifier.1", "classifier")[column]
    place = int(parts[1])
    if place in _V2_ENDS:
        return ("features.", "")[column] + _V2_ENDS[place][column]
    block = place - 3
    inner = (_V2_BLOCK if block else _V2_FIRST)[parts[3]][column]
    return (f"features.{block + 1}.conv", _in_stages(block, _V2_STAGES))[column] + "." + inner


_V3_STAGES = {15: (1, 2, 3, 4, 2, 3), 11: (1, 2, 3, 2, 3)}  # by the number of blocks: large, small
_V3_TIMM = {
    **{"expand.conv": "conv_pw", "expand.bn": "bn1", "conv1.conv": "conv_dw", "conv1.bn": "bn2"},
    **{
        "se.conv1": "se.conv_reduce",
        "se.conv2": "se.conv_expand",
        "conv2.conv": "conv_pwl",
        "conv2.bn": "bn3",
    },
}
_V3_TIMM_FIRST = {**_V3_TIMM, "conv1.bn": "bn1", "conv2.conv": "conv_pw", "conv2.bn": "bn2"}


def _mobilenetv3(parts: Sequence[str], scheme: str, layers: Collection[str]) -> str:
    column = SCHEMES.index(scheme)
    if parts[0] == "output":
        return ("classifier.3", "classifier")[column]
    place = int(parts[1])
    num_blocks = len({layer.split(".")[1] for layer in layers if layer.endswith("conv1.conv")})
    stages = _V3_STAGES[num_blocks]
    block, behind = place - 3, place - 3 - num_blocks
    if len(parts) == 2:
        first, last = f"features.{num_blocks + 1}", f"blocks.{len(stages)}.0"
        return {
            -3 - num_blocks: ("features.0.0", "conv_stem"),
            -2 - num_blocks: ("features.0.1", "bn1"),
            0: (f"{first}.0", f"{last}.conv"),
            1: (f"{first}.1", f"{last}.bn1"),
            4: ("classifier.0", "conv_head"),
        }[behind][column]
    inner = ".".join(parts[2:])
    if scheme == TIMM:
        return _in_stages(block, stages) + "." + (_V3_TIMM if block else _V3_TIMM_FIRST)[inner]
    present = [
        part
        for part in ("expand", "conv1", "se", "conv2")
        if any(layer.startswith(f"features.{place}.{part}.") for layer in layers)
    ]
    within = {"conv": "0", "bn": "1", "conv1": "fc1", "conv2": "fc2"}[parts[3]]
    return f"features.{block + 1}.block.{present.index(parts[2])}.{within}"


FAMILIES: Mapping[str, Callable[[Sequence[str], str, Collection[str]], str]] = {
    "resnet": _resnet,
    "resnet by place": _resnet_by_place,
    "densenet": _densenet,
    "vgg": _vgg,
    "mobilenetv2": _mobilenetv2,
    "mobilenetv3": _mobilenetv3,
}


def recognised(shapes: Mapping[str, Shape]) -> tuple[str, str] | None:
    """Return the net, as `--model` calls it, and the library whose names these are; None for another net."""
    if "layer1.0.conv1.weight" in shapes:
        return _recognised_resnet(shapes)
    if "features.denseblock1.denselayer1.conv1.weight" in shapes:
        layers = _count(shapes, r"features\.denseblock\d+\.denselayer\d+\.")
        depth = {58: 121, 78: 161, 82: 169, 98: 201}.get(layers)
        return (f"torchvision/densenet{depth}", TORCHVISION) if depth else None
    if "conv_stem.weight" in shapes:
        size = {15: "large", 11: "small"}.get(_count(shapes, r"blocks\.\d+\.\d+\.conv_dw\."))
        if "blocks.3.0.se.conv_reduce.weight" in shapes or "blocks.2.0.se.conv_reduce.weight" in shapes:
            return (f"timm/mobilenetv3_{size}_100", TIMM) if size else None
        return "torchvision/mobilenet_v2", TIMM
    if "features.1.conv.0.0.weight" in shapes:
        return "torchvision/mobilenet_v2", TORCHVISION
    if "features.1.block.0.0.weight" in shapes:
        blocks = _count(shapes, r"features\.\d+\.block\.")
        return f"torchvision/mobilenet_v3_{'large' if blocks == 15 else 'small'}", TORCHVISION
    return _recognised_vgg(shapes)


def _recognised_resnet(shapes: Mapping[str, Shape]) -> tuple[str, str] | None:
    blocks = tuple(_count(shapes, rf"layer{stage}\.\d+\.") for stage in (1, 2, 3, 4))
    is_deep = "layer1.0.conv3.weight" in shapes
    depths: dict[Shape, int] = (
        {(3, 4, 6, 3): 50, (3, 4, 23, 3): 101, (3, 8, 36, 3): 152}
        if is_deep
        else {(2, 2, 2, 2): 18, (3, 4, 6, 3): 34}
    )
    depth = depths.get(blocks)
    if depth is None:
        return None
    stem = shapes.get("conv1.0.weight")
    if stem is not None:
        variant = "s" if stem[:1] == (64,) else "d" if "layer1.0.downsample.2.weight" in shapes else "c"
        return f"resnet{depth}_v1{variant}", TIMM
    inner = shapes.get("layer1.0.conv2.weight", ())[:2]
    grouped: dict[Shape, str] = {(128, 4): f"resnext{depth}_32x4d", (256, 4): f"resnext{depth}_64x4d"}
    model = grouped.get(
        inner, f"torchvision/wide_resnet{depth}_2" if inner == (128, 128) else f"resnet{depth}_v1b"
    )
    return (model, TORCHVISION if name_there(model, TORCHVISION) else TIMM) if model in KNOWN else None


def _recognised_vgg(shapes: Mapping[str, Shape]) -> tuple[str, str] | None:
    convolutions = sum(len(shape) == 4 and name.startswith("features.") for name, shape in shapes.items())
    depth = {8: 11, 10: 13, 13: 16, 16: 19}.get(convolutions)
    scheme = (
        TIMM
        if "pre_logits.fc1.weight" in shapes
        else TORCHVISION
        if "classifier.3.weight" in shapes
        else None
    )
    if depth is None or scheme is None or shapes.get("features.0.weight", ())[:1] != (64,):
        return None
    return f"torchvision/vgg{depth}{'_bn' if 'features.1.running_mean' in shapes else ''}", scheme


def _count(names: Iterable[str], pattern: str) -> int:
    """Return how many different beginnings of names the pattern has."""
    return len({found[0] for found in map(re.compile(pattern).match, names) if found})
