"""From files of MXNet's and GluonCV's to a run folder: .params, alone or with the symbol of a Module checkpoint.

Needs mxnet. Names may be those of Gluon's save_parameters, of GluonCV's published files, of net.export and of Module
(`arg:`, `aux:`); matching them is `models/parameters/pretrained.py`'s, here all have to fit. Where there is a symbol,
outputs are compared with those of its graph.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Mapping, Sequence

import numpy as np

from mxtrain.config import Run
from mxtrain.config.components import nets
from mxtrain.convert import converted_run, target_net
from mxtrain.convert.imagenet import class_names_of_imagenet
from mxtrain.convert.options import Conversion, ConvertOptions
from mxtrain.core.errors import DataError, UsageError, nearest
from mxtrain.core.params_file import Arrays
from mxtrain.models import contract
from mxtrain.models.parameters import pretrained, weights
from mxtrain.runtime import mx

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block, Symbol

PARAMS, SYMBOL = ".params", "-symbol.json"
TOLERANCE = 1e-5  # of the largest output
SHOWN = 3
USUAL_CLASSES = 1000
OF_TRAINING = (
    "SoftmaxOutput",
    "LinearRegressionOutput",
    "LogisticRegressionOutput",
    "SoftmaxActivation",
    "softmax",
)


def is_taken(path: Path) -> bool:
    """Return whether the file is one of these."""
    return path.suffix == PARAMS or path.name.endswith(".json")


def convert(sources: Sequence[Path], out: Path, options: ConvertOptions) -> Conversion:
    """Write the net of a .params file, and of its symbol if that is given, to `out`."""
    if options.drop_head:
        raise UsageError(
            "--drop-head: is for torch's files; --pretrained leaves a head of other classes out by itself"
        )
    path, symbol_path = _files(sources)
    model = _model(path, options)
    arrays = _read(path)
    num_classes, net, weights = _matched(path, model, arrays, options)
    target_net.fill(net, weights)
    run = options.run(model)
    difference = None if symbol_path is None else _compared(symbol_path, arrays, net, run)
    origin = {"from": str(path.resolve()), "net": model}
    if out.suffix == converted_run.PARAMS:
        converted_run.params(out, weights)
    else:
        class_names = converted_run.class_names(options.classes, num_classes, class_names_of_imagenet)
        converted_run.run_folder(out, run, class_names, weights, origin)
    notes = (
        []
        if difference is None
        else [f"outputs are those of {symbol_path}, to {difference:.1e} of the largest"]
    )
    return Conversion(out, str(path), model, num_classes, len(weights), notes)


def _files(sources: Sequence[Path]) -> tuple[Path, Path | None]:
    """Return the .params file and that of the symbol, if it is given; params are found beside their symbol."""
    symbols = [path for path in sources if path.name.endswith(".json")]
    params = [path for path in sources if path not in symbols]
    if len(symbols) > 1 or len(params) > 1:
        raise UsageError(f"{sources[1]}: give one .params file, and one {SYMBOL} file if there is one")
    if params:
        return params[0], symbols[0] if symbols else None
    prefix = symbols[0].name[: -len(SYMBOL)] if symbols[0].name.endswith(SYMBOL) else symbols[0].stem
    beside = sorted(symbols[0].parent.glob(f"{prefix}-[0-9][0-9][0-9][0-9]{PARAMS}"))
    if not beside:
        raise UsageError(f"{symbols[0]}: has no {prefix}-0000{PARAMS} beside it; give its {PARAMS} file too")
    return beside[-1], symbols[0]


def _read(path: Path) -> Arrays:
    """Return the arrays of a file, without the prefixes of Module and export; finite ones, as float32."""
    found = {}
    for name, array in pretrained.read(path, f"{path}").items():
        numbers = array.asnumpy().astype(np.float32)
        if not np.isfinite(numbers).all():
            raise DataError(f"{path}: '{name}' holds numbers that are not finite; give another file")
        found[name] = numbers
    return found


def _model(path: Path, options: ConvertOptions) -> str:
    """Return the net: as it was asked for, or as the file's name says it, as in resnet50_v1b-0ecdba34.params."""
    if options.model:
        if options.model not in nets.that_take(nets.PICTURES) and ":" not in options.model:
            raise UsageError(
                f"--model {options.model}: unknown{nearest(options.model, nets.that_take(nets.PICTURES))}"
            )
        return options.model
    stem = re.sub(r"-([0-9a-f]{8}|\d{4})$", "", path.stem)
    if stem in nets.that_take(nets.PICTURES):
        return stem
    raise UsageError(f"{path}: its name says no net; give --model, as to mxtrain.fit")


def _matched(path: Path, model: str, arrays: Arrays, options: ConvertOptions) -> tuple[int, Block, Arrays]:
    """Return the number of classes, a net for them, and its weights by their places in it; DataError unless all fit."""
    net = target_net.built(options.run(model), USUAL_CLASSES)
    match = _match(net, arrays)
    head = list(target_net.shapes_of(net))[-1].rpartition(".")[0]
    of_head = {name: shapes for name, shapes in match.mismatched.items() if name.rpartition(".")[0] == head}
    num_classes = next((theirs[0] for theirs, _ in of_head.values()), USUAL_CLASSES)
    if of_head:
        net = target_net.built(options.run(model), num_classes)
        match = _match(net, arrays)
    _refuse_differences(f"{path}: does not fit {model}", match, arrays)
    return num_classes, net, {name: arrays[theirs] for name, theirs in match.loaded.items()}


def _match(net: Block, arrays: Arrays) -> pretrained.NameMatch:
    theirs = {name: array.shape for name, array in arrays.items()}
    long_names = {name: parameter.name for name, parameter in weights.named_parameters(net).items()}
    return pretrained.match_names(theirs, target_net.shapes_of(net), long_names)


def _refuse_differences(called: str, match: pretrained.NameMatch, arrays: Mapping[str, Any]) -> None:
    for name, (theirs, ours) in match.mismatched.items():
        raise DataError(f"{called}: its '{name}' is {theirs}, the net's {ours}; give the right --model")
    for name in match.missing:
        more = f" (and {len(match.missing) - 1} more)" if len(match.missing) > 1 else ""
        raise DataError(f"{called}: there is no '{name}'{more}{nearest(name, match.unexpected or arrays)}")
    if match.unexpected:
        shown = ", ".join(f"'{name}' {arrays[name].shape}" for name in match.unexpected[:SHOWN])
        raise DataError(f"{called}: the net has no parameter for {shown} ({len(match.unexpected)} in all)")


def _compared(path: Path, arrays: Arrays, net: Block, run: Run) -> float:
    """Return how far the outputs of the symbol's graph are from the net's; DataError where they are others."""
    shape = contract.of_pictures(run.data.image_size, 1, run.data.channels).inputs[0]
    pictures = np.random.default_rng(0).normal(size=(2, *shape)).astype(np.float32)
    ours, theirs = target_net.outputs(net, pictures, path), _outputs_of(path, arrays, pictures)
    if theirs.shape != ours.shape:
        raise DataError(
            f"{path}: gives {theirs.shape[1:]} for a picture, the net {ours.shape[1:]}; give the right --model"
        )
    difference = float(np.abs(theirs - ours).max() / np.abs(theirs).max())
    if not difference <= TOLERANCE:
        raise DataError(
            f"{path}: its graph gives other outputs than the net, by {difference:.1e} of the largest: "
            "give the right --model"
        )
    return difference


def _outputs_of(path: Path, arrays: Arrays, pictures: Any) -> Any:
    """Return what a symbol's graph gives for pictures, before the layer that a loss is computed in."""
    try:
        symbol = mx.sym.load(str(path))
    except mx.base.MXNetError:
        raise DataError(f"{path}: not a symbol of MXNet's; give the {SYMBOL} file") from None
    while _operator(symbol) in OF_TRAINING:
        symbol = symbol.get_children()[0]
    inputs = [name for name in symbol.list_inputs() if name not in arrays]
    if len(inputs) != 1:
        raise DataError(
            f"{path}: takes {', '.join(inputs) or 'nothing'} that is not in the .params; it has to be one input"
        )
    block = mx.gluon.SymbolBlock(symbol, mx.sym.var(inputs[0], dtype="float32"))
    for name, parameter in block.collect_params().items():
        parameter.shape = arrays[name].shape
        parameter.initialize()
        parameter.set_data(mx.nd.array(arrays[name]))
    return block(mx.nd.array(pictures)).asnumpy()


def _operator(symbol: Symbol) -> str:
    """Return the operator that a symbol's output comes from."""
    return str(json.loads(symbol.tojson())["nodes"][-1]["op"])
