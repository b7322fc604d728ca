"""From a trained run to a state_dict that torchvision's or timm's net loads strictly.

Needs mxnet, to read the checkpoint. Names are `torch_names.py`'s, the file is `state_dict.py`'s.
"""

from __future__ import annotations

from pathlib import Path

from mxtrain.checkpoint import initial_weights
from mxtrain.checkpoint.directory import Checkpoint
from mxtrain.config import Run
from mxtrain.convert import target_net
from mxtrain.convert.options import Conversion, ConvertOptions
from mxtrain.convert.torch import state_dict, torch_check, torch_names, torch_weights
from mxtrain.core.errors import UsageError, nearest
from mxtrain.models.parameters import weights as named_weights
from mxtrain.tasks.classification import COSINE_SCALE, Classification
from mxtrain.tasks.task import Task


def convert(checkpoint: Checkpoint, run: Run, task: Task, out: Path, options: ConvertOptions) -> Conversion:
    """Write the weights of a checkpoint, the averaged ones where it has some, to `out`."""
    model = run.model.model
    scheme, name = _net_there(model, options.names)
    needed = torch_names.needs_size(model, scheme)
    if needed and str(run.data.image_size) != str(needed):
        instead = "" if "/" in model else f"; train --model torchvision/{name}"
        raise UsageError(
            f"{checkpoint.path}: {model} at {run.data.image_size} pixels computes something else than {scheme}'s "
            f"{name}; at {needed} they are the same{instead}"
        )
    if not isinstance(task, Classification):
        raise UsageError(
            f"{checkpoint.path}: is of --task {run.model.task}; nets of classification are converted"
        )
    if COSINE_SCALE in task.description:
        raise UsageError(
            f"{checkpoint.path}: was trained with --loss {run.model.loss}, whose head answers with cosines, and "
            f"{scheme}'s {name} has a plain one; take mxtrain.export --to onnx"
        )
    if checkpoint.widths:
        raise UsageError(
            f"{checkpoint.path}: has fewer channels than {scheme}'s {name}, as --prune took some out, and does not fit "
            "it; give a run that was not pruned by channel, or take mxtrain.export --to onnx"
        )
    num_classes = len(task.class_names)
    net = target_net.built(run, num_classes)
    averaged = (checkpoint.path, *checkpoint.others)
    named_weights.load(net, *(str(initial_weights.weights_of(path)) for path in averaged))
    arrays = torch_weights.give(model, scheme, target_net.values_of(net))
    with state_dict.write_aside(out, arrays) as aside:
        agreement = torch_check.compare(options.torch, net, run, aside, (scheme, name), num_classes)
    notes = _notes(model, scheme)
    return Conversion(
        out, str(checkpoint.path), f"{scheme}/{name}", num_classes, len(arrays), notes, *agreement
    )


def _net_there(model: str, names: str) -> tuple[str, str]:
    """Return whose net it is in torch, and what it is called there."""
    if model not in torch_names.KNOWN:
        raise UsageError(
            f"--to torch: torchvision and timm have no net that computes what --model {model} does"
            f"{nearest(model, torch_names.KNOWN)}"
        )
    for scheme in (names,) if names else torch_names.SCHEMES:
        name = torch_names.name_there(model, scheme)
        if name:
            return scheme, name
    raise UsageError(f"--names {names}: has no net that computes what --model {model} does; leave it out")


def _notes(model: str, scheme: str) -> list[str]:
    here, there = torch_weights.own_epsilon(model), torch_weights.epsilon(model, scheme)
    if here == there:
        return []
    return [f"BatchNorm's epsilon is {here:g} here and {there:g} there: its scales make up for it in use"]
