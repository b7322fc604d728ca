"""A train_val.prototxt of Caffe's: what its data layers say of pictures, and which net its layers are.

Owns both generations of the format, `layer` with types as text and `layers` with words. Gives flags of fit and, with
their lines, the fields that have no flag.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence

from mxtrain.convert.caffe.prototxt import Field, Message

DATA_LAYERS = ("data", "imagedata", "hdf5data", "windowdata", "memorydata", "image_data", "hdf5_data")
PARAMS_OF_DATA = (
    "data_param",
    "image_data_param",
    "hdf5_data_param",
    "memory_data_param",
    "window_data_param",
)
TRANSFORMS = ("crop_size", "mirror", "mean_file", "mean_value", "scale", "force_color", "force_gray")
SILENT = ("name", "type", "top", "bottom", "include", "exclude", "backend", "batch_size", "source")
SHARE_SHOWN = 1 / 0.875  # how much larger pictures are stored than they are cropped, where nothing says it
USUAL_SIDE = 256  # of stored pictures of ImageNet
FILLERS = {"xavier": "xavier", "msra": "msra"}


class Lost(NamedTuple):
    """A field that has no counterpart, where it stands, and what to do instead."""

    path: Path
    line: int
    what: str
    why: str

    def in_words(self) -> str:
        return f"{self.path}:{self.line}: {self.what}: {self.why}"


class ConvertedFlags(NamedTuple):
    """The flags that a file gives, and what it says besides."""

    flags: dict[str, Any]
    lost: list[Lost]


def layers_of(net: Message) -> list[Message]:
    """Return the layers of a net, of either generation of the format."""
    return [*net.messages("layer"), *net.messages("layers")]


def text(message: Message, name: str) -> str:
    field = message.last(name)
    return "" if field is None else str(field.value)


def layer_type(layer: Message) -> str:
    """Return a layer's type in lower case: `convolution`, of the old format's CONVOLUTION too."""
    return text(layer, "type").lower()


def batch_of(net: Message) -> int | None:
    """Return how many samples a forward pass of training takes."""
    for layer in _data_layers(net, "TRAIN"):
        for params in _params(layer):
            field = params.last("batch_size")
            if field is not None and isinstance(field.value, int):
                return field.value
    return None


def read(path: Path, net: Message) -> ConvertedFlags:
    """Return the flags of a net's data layers and of its kind."""
    flags: dict[str, Any] = {"train": None, "val": None}
    lost: list[Lost] = []
    for flag, phase in (("train", "TRAIN"), ("val", "TEST")):
        for layer in _data_layers(net, phase)[:1]:
            _read_data(path, layer, flag, flags, lost)
    model, why = recognised(net)
    if model:
        flags["model"] = model
    first = layers_of(net)
    if why:
        lost.append(Lost(path, _line(first[0]) if first else 1, f"net '{text(net, 'name')}'", why))
    _read_classes(net, flags)
    _read_parameters(path, net, flags, lost)
    return ConvertedFlags({name: value for name, value in flags.items() if value is not None}, lost)


def _line(message: Message) -> int:
    return message[0].line if message else 1


def _data_layers(net: Message, phase: str) -> list[Message]:
    """Return the data layers of a phase; one without a phase is of both."""
    found = []
    for layer in layers_of(net):
        phases = {text(each, "phase") for each in layer.messages("include")} - {""}
        if layer_type(layer) in DATA_LAYERS and (not phases or phase in phases):
            found.append(layer)
    return found


def _params(layer: Message) -> list[Message]:
    return [message for name in PARAMS_OF_DATA for message in layer.messages(name)]


def _read_data(path: Path, layer: Message, flag: str, flags: dict[str, Any], lost: list[Lost]) -> None:
    """Read a data layer: its source, and what becomes of its pictures."""
    fields = [field for message in (*_params(layer), *layer.messages("transform_param")) for field in message]
    known = {field.name: field for field in fields}
    source = known.get("source")
    if source is not None:
        packed = Path(str(source.value)).name
        flags[flag] = f"data/{packed}.rec"
        pack = f"pack it: python -m tools.im2rec_wrapper pack {source.value} data/{packed}.rec"
        lost.append(Lost(path, source.line, f"source: {source.value}", pack))
    if flag == "train":
        _read_transform(path, known, [each for each in fields if each.name == "mean_value"], flags, lost)
    handled = {*SILENT, *TRANSFORMS, "new_height", "new_width"}
    for field in fields:
        if field.name not in handled:
            lost.append(
                Lost(path, field.line, f"{field.name}: {_shown(field)}", _REASONS.get(field.name, NONE))
            )


NONE = "has no counterpart"
_REASONS = {
    "prefetch": "is --prefetch-mb, in megabytes",
    "rand_skip": "the order is drawn anew in each epoch",
    "shuffle": "is always done",
    "root_folder": "is given to pack",
    "is_color": "is --channels",
}


def _read_transform(
    path: Path, known: Mapping[str, Field], means: Sequence[Field], flags: dict[str, Any], lost: list[Lost]
) -> None:
    crop, mirror = known.get("crop_size"), known.get("mirror")
    augment = "none"
    if crop is not None:
        size = int(_number(crop))
        stored = _stored(size, known)
        share = f"{(size / stored) ** 2:.6g}"
        augment = f"resized_crop:scale_min={share},scale_max={share},ratio_min=1,ratio_max=1"
        flags.update(image_size=size, val_resize=stored)
        lost.append(
            Lost(
                path,
                crop.line,
                f"crop_size: {size}",
                f"is taken from pictures of {stored} pixels; adjust if not",
            )
        )
    flags["augment"] = augment + ("+flip" if mirror is not None and _is_true(mirror) else "")
    scale = known.get("scale")
    if scale is not None or means or "mean_file" in known:
        flags["deviation"] = f"{1 / (255 * (_number(scale) if scale else 1.0)):.8g}"
        flags["mean"] = "0"
    if means:
        numbers = [_number(each) / 255 for each in means][::-1]  # Caffe's pictures are blue, green, red
        flags["mean"] = ",".join(f"{number:.8g}" for number in numbers)
        if len(numbers) == 3:
            lost.append(
                Lost(path, means[0].line, "mean_value", "blue first there, red first here: turned round")
            )
    if "mean_file" in known:
        flags["mean"] = "auto"
        field = known["mean_file"]
        lost.append(
            Lost(path, field.line, f"mean_file: {field.value}", "is not read: --mean auto measures it")
        )
    if "force_gray" in known and _is_true(known["force_gray"]):
        flags["channels"] = 1


def _stored(size: int, known: Mapping[str, Field]) -> int:
    field = known.get("new_height")
    if field is not None and int(_number(field)) >= size:
        return int(_number(field))
    return USUAL_SIDE if USUAL_SIDE * 3 / 4 < size <= USUAL_SIDE else round(size * SHARE_SHOWN)


def _number(field: Field) -> float:
    return float(field.value) if isinstance(field.value, (int, float)) else 0.0


def _is_true(field: Field) -> bool:
    return str(field.value).lower() in ("true", "1", "t")


def _shown(field: Field) -> str:
    return "{...}" if isinstance(field.value, Message) else str(field.value)


def _read_classes(net: Message, flags: dict[str, Any]) -> None:
    dense = [layer for layer in layers_of(net) if layer_type(layer) in ("innerproduct", "inner_product")]
    for params in dense[-1].messages("inner_product_param") if dense else []:
        field = params.last("num_output")
        if field is not None:
            flags["num_classes"] = int(_number(field))


def _read_parameters(path: Path, net: Message, flags: dict[str, Any], lost: list[Lost]) -> None:
    """Read what layers say of their weights: how fast they learn, whether they decay, how they begin."""
    factors: dict[str, set[float]] = {"rate": set(), "decay": set()}
    begins: dict[str, Field] = {}
    for layer in layers_of(net):
        params = layer.messages("param")
        rates = [_number(f) for each in params for f in each.all("lr_mult")]
        rates = rates or [_number(f) for f in layer.all("blobs_lr")]
        decays = [_number(f) for each in params for f in each.all("decay_mult")]
        decays = decays or [_number(f) for f in layer.all("weight_decay")]
        factors["rate"].update(rates[1:2])
        factors["decay"].update(decays[1:2])
        if rates and rates[0] not in (0.0, 1.0):
            what = f"layer {text(layer, 'name')}: lr_mult {rates[0]:g}"
            lost.append(Lost(path, _line(layer), what, "is --lr-scale, with the name of the layer here"))
        if rates and not any(rates):
            what = f"layer {text(layer, 'name')}: lr_mult 0"
            lost.append(Lost(path, _line(layer), what, "is --freeze, with the name of the layer here"))
        for message in (*layer.messages("convolution_param"), *layer.messages("inner_product_param")):
            for filler in message.messages("weight_filler"):
                field = filler.last("type")
                begins.update({} if field is None else {_filler(filler): field})
    if factors["rate"] == {2.0}:
        flags["lr_scale"] = "*bias=2"
    flags["decay_all"] = 0.0 not in factors["decay"]
    known = [name for name in begins if name]
    if len(known) == 1:
        flags["init"] = known[0]
    elif begins:
        field = next(iter(begins.values()))
        why = "differs by layer; --init has one for all"
        lost.append(Lost(path, field.line, f"weight_filler {', '.join(sorted(begins))}", why))


def _filler(filler: Message) -> str:
    """Return the flag --init of a filler; its own name where there is none."""
    name = text(filler, "type")
    std = filler.last("std")
    if name == "gaussian" and std is not None:
        return f"normal:sigma={_number(std):g}"
    return FILLERS.get(name, name)


def recognised(net: Message) -> tuple[str, str]:
    """Return the net as --model calls it, and what differs; an empty name where it is none that is known."""
    layers = layers_of(net)
    names = [text(layer, "name") for layer in layers]
    num_convolutions = sum(layer_type(layer) == "convolution" for layer in layers)
    if any(name.startswith("inception_3a") for name in names):
        return "googlenet", "GluonCV's googlenet has BatchNorm, and no losses at its side"
    if any(name.startswith("res2a_branch2") for name in names):
        depth = {20: 18, 36: 34, 53: 50, 104: 101, 155: 152}.get(num_convolutions)
        return (
            (f"resnet{depth}_v1", "") if depth else ("", f"a residual net of {num_convolutions} convolutions")
        )
    if any(name.startswith("fire2") for name in names):
        first = next((m for layer in layers for m in layer.messages("convolution_param")), Message())
        return f"squeezenet1.{0 if text(first, 'num_output') == '96' else 1}", ""
    if "conv1_1" in names and "fc6" in names:
        depth = {8: 11, 10: 13, 13: 16, 16: 19}.get(num_convolutions)
        return (
            (f"vgg{depth}", "") if depth else ("", f"a vgg of {num_convolutions} convolutions is not known")
        )
    if {"conv5", "fc6", "fc7", "fc8"} <= {*names}:
        return (
            "alexnet",
            "GluonCV's alexnet has one tower of 64 to 384 channels, and no local response normalisation",
        )
    for ending, model in (("/dw", "mobilenet1.0"), ("/dwise", "mobilenetv2_1.0")):
        if any(name.endswith(ending) for name in names):
            return model, ""
    if {"conv1", "ip1"} <= {*names}:
        return "small_cnn", "a small net, and another one here"
    return "", "no net that is known: give --model, or your own as module:callable"
