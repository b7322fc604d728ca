"""From Caffe's solver.prototxt and train_val.prototxt to a config for `fit --config`.

Owns finding the net of a solver, and the YAML file: flags, and as comments what has no counterpart, with the lines
where it stands. Needs no mxnet.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Sequence

from mxtrain import config
from mxtrain.config.checks import bounds
from mxtrain.convert.caffe import caffe_net, caffe_solver, prototxt
from mxtrain.convert.caffe.caffe_net import Lost
from mxtrain.convert.caffe.prototxt import Message
from mxtrain.core import durable
from mxtrain.core.errors import DataError, UsageError

PROTOTXT = (".prototxt", ".pbtxt")
IMAGENET = 1_281_167  # pictures to train on
OF_IMAGENET = ("ilsvrc", "imagenet")


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A config that was written."""

    out: Path
    flags: dict[str, Any]
    lost: Sequence[str]  # what has no counterpart, a line each

    def in_words(self) -> str:
        return f"{self.out}: {len(self.flags)} flags, for mxtrain.fit --config {self.out}"

    @property
    def notes(self) -> Sequence[str]:
        return self.lost


def convert(sources: Sequence[Path], out: Path, num_samples: int = 0) -> Recipe:
    """Write the config of a solver, and of its net, which may be the second source."""
    if out.suffix not in (".yaml", ".yml"):
        raise UsageError(f"{out}: a solver becomes a config; give a name that ends in .yaml")
    solver_path, solver = _solver(sources)
    others = [path for path in sources if path != solver_path]
    net_path = others[0] if others else _net_of(solver_path, solver)
    net = prototxt.read(net_path)
    of_net = caffe_net.read(net_path, net)
    batch = caffe_net.batch_of(net)
    if not batch:
        raise DataError(
            f"{net_path}: no data layer of phase TRAIN says its batch_size; give the train_val.prototxt"
        )
    samples = num_samples or _num_samples(net_path, net)
    of_solver = caffe_solver.read(solver_path, solver, batch, samples)
    flags = {**of_net.flags, **of_solver.flags}
    run = config.from_flat(flags)
    try:
        bounds.check(run)
    except UsageError as error:
        raise DataError(f"{solver_path}: cannot be a config: {error}") from None
    lost = [each.in_words() for each in sorted([*of_solver.lost, *of_net.lost], key=_place)]
    _write(out, [solver_path, net_path], samples, flags, lost)
    return Recipe(out, flags, lost)


def _place(lost: Lost) -> tuple[bool, int]:
    return "solver" not in lost.path.name, lost.line


def _solver(sources: Sequence[Path]) -> tuple[Path, Message]:
    """Return which of the files is the solver, with its content."""
    for path in sources:
        message = prototxt.read(path)
        if message.last("max_iter") is not None or message.last("base_lr") is not None:
            return path, message
    raise UsageError(
        f"{sources[0]}: no solver, it has neither base_lr nor max_iter; give the solver.prototxt too"
    )


def _net_of(path: Path, solver: Message) -> Path:
    """Return the file of a solver's net: as it is written there, or of that name beside the solver."""
    field = solver.last("net") or solver.last("train_net")
    if field is None:
        raise UsageError(f"{path}: names no net; give its train_val.prototxt too")
    named = Path(str(field.value))
    for found in (named, path.parent / named, path.parent / named.name):
        if found.is_file():
            return found
    raise UsageError(
        f"{path}:{field.line}: its net {named} is neither here nor beside it; give that file too"
    )


def _num_samples(path: Path, net: Message) -> int:
    """Return the length of ImageNet, where that is what the net learns from."""
    sources = [
        str(f.value).lower() for layer in caffe_net.layers_of(net) for m in layer for f in _fields(m.value)
    ]
    if any(name in source for source in sources for name in OF_IMAGENET):
        return IMAGENET
    raise UsageError(
        f"{path}: Caffe counts iterations, mxtrain epochs; give --samples, the number of samples to train on"
    )


def _fields(value: Any) -> list[prototxt.Field]:
    return value.all("source") if isinstance(value, Message) else []


def _write(
    out: Path, sources: Sequence[Path], samples: int, flags: dict[str, Any], lost: Sequence[str]
) -> None:
    import yaml

    head = [
        f"# From {' and '.join(map(str, sources))}, for {samples} samples an epoch.",
        "# Give other flags on the command line, or change them here.",
    ]
    tail = (
        ["# What has no counterpart, or is to be looked at:", *(f"#   {line}" for line in lost)]
        if lost
        else []
    )
    content = yaml.safe_dump(flags, sort_keys=False, width=1000)
    try:
        durable.replace(out, "\n".join([*head, content.rstrip(), *tail]) + "\n")
    except OSError as error:
        raise durable.cannot_write(out, error) from None
