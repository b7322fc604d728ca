"""From a state_dict of torchvision or timm to a net here: found out, matched in full, compared, written.

Needs mxnet. Files and names are `state_dict.py`'s and `torch_names.py`'s.
"""

from __future__ import annotations

from pathlib import Path

from mxtrain.convert import converted_run, target_net
from mxtrain.convert.imagenet import class_names_of_imagenet
from mxtrain.convert.options import Conversion, ConvertOptions
from mxtrain.convert.torch import state_dict, torch_check, torch_names, torch_weights
from mxtrain.convert.torch.state_dict import StateDict
from mxtrain.core.errors import DataError, UsageError

SHOWN = 4
KNOWN_NETS = "resnet, wide_resnet, resnext, densenet, vgg, mobilenet_v2 and mobilenet_v3"


def convert(path: Path, out: Path, options: ConvertOptions) -> Conversion:
    """Write the net of a state_dict to `out`: a run folder, or a .params file."""
    state = state_dict.read(path)
    model, scheme = _recognised(path, state, options)
    needed = torch_names.needs_size(model, scheme)
    if needed and str(options.image_size) != str(needed):
        raise UsageError(
            f"--image-size {options.image_size}: {model} computes what {scheme}'s net does for {needed} pixels alone"
        )
    head = torch_names.head_layer(model)
    head_there = torch_names.layer_names(model, scheme, [head])[head]
    own = state.get(f"{head_there}.weight")
    if own is not None and not own.shape:
        raise DataError(f"{path}: '{head_there}.weight' is a single number, and no layer of classes")
    drops = options.drop_head or own is None
    if drops and out.suffix != converted_run.PARAMS:
        why = "--drop-head" if options.drop_head else f"{path}: has no head ('{head_there}.weight')"
        raise UsageError(
            f"{why}: a net without its last layer answers nothing; give an OUT that ends in .params"
        )
    num_classes = 1000 if own is None else own.shape[0]
    class_names = converted_run.class_names(
        None if drops else options.classes, num_classes, class_names_of_imagenet
    )
    run = options.run(model, channels=_channels(state))
    net = target_net.built(run, num_classes)
    shapes = target_net.shapes_of(net)
    kept = {name: shape for name, shape in shapes.items() if not (drops and name.startswith(head + "."))}
    present = {key: each for key, each in state.items() if not (drops and key.startswith(head_there + "."))}
    weights = torch_weights.take(path, model, scheme, present, kept)
    target_net.fill(net, weights)
    there = scheme, torch_names.name_there(model, scheme)
    agreement = torch_check.NOT_COMPARED
    if not drops:
        agreement = torch_check.compare(options.torch, net, run, path, there, num_classes)
    origin = {"from": str(path.resolve()), "names": scheme, "net": there[1]}
    if out.suffix == converted_run.PARAMS:
        converted_run.params(out, weights)
    else:
        converted_run.run_folder(out, run, class_names, weights, origin)
    described = f"{origin['net']} of {scheme}, {path}"
    notes = _notes(model, scheme)
    return Conversion(out, described, model, 0 if drops else num_classes, len(weights), notes, *agreement)


def _recognised(path: Path, state: StateDict, options: ConvertOptions) -> tuple[str, str]:
    """Return the net and whose names these are; those that were asked for come first."""
    shapes = {name: stored.shape for name, stored in state.items()}
    recognised = torch_names.recognised(shapes)
    if options.model and options.model not in torch_names.KNOWN:
        raise UsageError(
            f"--model {options.model}: torchvision and timm have no such net; known are {KNOWN_NETS}"
        )
    if recognised is None and not options.model:
        shown = ", ".join(f"'{name}' {shape}" for name, shape in list(shapes.items())[:SHOWN])
        raise DataError(
            f"{path}: not of a net that is known here; it has {len(shapes)} arrays, {shown} among them, and what is "
            f"known are {KNOWN_NETS} of torchvision and timm"
        )
    model, scheme = recognised or (options.model, torch_names.TORCHVISION)
    model, scheme = options.model or model, options.names or scheme
    if not torch_names.name_there(model, scheme):
        raise UsageError(f"--names {scheme}: has no net that computes what --model {model} does")
    return model, scheme


def _channels(state: StateDict) -> int:
    """Return how many channels of pictures the first convolution takes."""
    firsts = (
        "conv1.weight",
        "conv1.0.weight",
        "conv_stem.weight",
        "features.0.weight",
        "features.0.0.weight",
    )
    stored = [state[name] for name in (*firsts, "features.conv0.weight") if name in state]
    channels = stored[0].shape[1] if stored and len(stored[0].shape) == 4 else 3
    return channels if channels in (1, 3) else 3


def _notes(model: str, scheme: str) -> list[str]:
    """Return what differs though the outputs are the same."""
    here, there = torch_weights.own_epsilon(model), torch_weights.epsilon(model, scheme)
    if here == there:
        return []
    return [
        f"BatchNorm's epsilon is {there:g} there and {here:g} here: its scales make up for it in use, not in training"
    ]
