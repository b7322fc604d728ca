"""Nets by name: built, then compiled with known shapes.

Owns building a net for `--model`, and the choice between a symbolic graph and imperative execution. Does not own the
list of names (`config/components/zoo/gluoncv_names.py`, which needs no mxnet) or the weights
(`models/parameters/initializers.py`, `models/parameters/pretrained.py`).
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import math
from typing import Any, Callable, Iterator, Mapping, Sequence, TypeVar

from mxtrain import runtime
from mxtrain.config.checks.bounds import LARGEST_ARRAY
from mxtrain.config.components import import_path, nets
from mxtrain.config.components.zoo import gluoncv_names, torch_net_names
from mxtrain.config.program_objects import NO_OBJECTS, ProgramObjects, is_object
from mxtrain.core.errors import UsageError, as_user_code
from mxtrain.models import chosen_rewrites, fallbacks, mxnet_errors
from mxtrain.models.analysis import shapes
from mxtrain.models.autocast.autocast import Autocast
from mxtrain.models.contract import Contract
from mxtrain.models.nets import torch_nets
from mxtrain.models.nets.table import tables_of
from mxtrain.models.parameters import weights
from mxtrain.models.rewrites import graph_rewrites
from mxtrain.models.rewrites.graph_rewrites import Shape
from mxtrain.models.rewrites.repairs import prelu
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block, Device, NDArray

logger = logging.getLogger(__name__)

COLOURS = 3
Answer = TypeVar("Answer")


@contextlib.contextmanager
def rewriting(narrowing: Autocast | None = None) -> Iterator[None]:
    """A block in which HybridBlocks are compiled by faster graphs, with PReLU's right gradient."""
    with prelu.repaired(), graph_rewrites.rewriting(
        chosen_rewrites.rewrites(narrowing),
        chosen_rewrites.by_purpose(),
        chosen_rewrites.needed_rewrites(narrowing),
    ):
        yield


def build(
    name: str, num_classes: int, channels: int = COLOURS, objects: ProgramObjects = NO_OBJECTS
) -> Block:
    """Return the net called `name` for pictures, with `num_classes` outputs, not initialised yet.

    A user's function hears of the channels of pictures where these are not the three colours.
    """
    if name in nets.NETS and nets.NETS[name].factory:
        net: Block = nets.NETS[name].load()(num_classes)
        return net
    if name in gluoncv_names.GLUONCV_CLASSIFIERS or name in torch_net_names.TORCH_NETS:
        net = _gluoncv_net(name, num_classes)
        if channels != COLOURS:
            _take_channels(net, channels)
        return net
    sizes = {"num_classes": num_classes, **({} if channels == COLOURS else {"channels": channels})}
    return user_net(name, objects, **sizes)


def _take_channels(net: Block, channels: int) -> None:
    """Let the convolutions that were made for colours take so many channels; others find out by themselves."""
    for layer in weights.layers(net, mx.gluon.nn.Conv2D):
        outputs, inputs, *kernel = layer.weight.shape
        if inputs == COLOURS:
            layer._in_channels = channels
            layer.weight._shape = (outputs, channels, *kernel)


def user_net(name: str, objects: ProgramObjects = NO_OBJECTS, **sizes: Any) -> Block:
    """Return what the user's function `name` of --model makes of the `sizes` that the task gives it."""
    function = import_path.load_callable("--model", name, objects)
    _refuse_other_arguments(name, function, sizes)
    made = as_user_code(f"--model {name}", function)(**sizes)
    if not isinstance(made, mx.gluon.Block):
        raise UsageError(f"--model {name}: returned a {type(made).__name__}, not a gluon Block")
    net: Block = made
    # Errors name the flag, wherever the net is called.
    net.forward = as_user_code(f"--model {name}", net.forward)
    return net


def _refuse_other_arguments(name: str, function: Any, sizes: Mapping[str, Any]) -> None:
    """Refuse a function that cannot be called with these sizes; some that are not of Python do not tell."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(**sizes)
    except TypeError as error:
        call = ", ".join(f"{size}={value!r}" for size, value in sizes.items())
        raise UsageError(
            f"--model {name}: is called with {call}, but {error}; let it take these alone"
        ) from None


def net_object(name: str, objects: ProgramObjects) -> Block | None:
    """Return the net that a Python program gave in the place of a name; None where it gave none."""
    net = objects.require("--model", name) if is_object(name) else None
    if not isinstance(net, mx.gluon.Block):
        return None  # perhaps a function that builds one, which is called as any other
    return net


def clear_added_gradients(net: Block) -> None:
    """Have gradients written: the step sums micro-batches itself, and nothing would clear those that are added."""
    for parameter in net.collect_params().values():
        if parameter.grad_req == "add":
            parameter.grad_req = "write"


def _gluoncv_net(name: str, num_classes: int) -> Block:
    """Return GluonCV's net, or one of torch's made of it; families take the number of classes in different ways."""
    if name in torch_net_names.TORCH_NETS:
        net = _gluoncv_net(torch_nets.base_of(name), num_classes)
        torch_nets.adapt(net, name, num_classes)
        return net
    keywords = {"classes": num_classes}
    if name.startswith("hrnet"):
        keywords = {"num_classes": num_classes}
    elif name.startswith("nasnet"):
        keywords["use_aux"] = False  # it would return a second output
    module, function = gluoncv_names.function_of(name)
    net = getattr(runtime.load_gluoncv_module(module), function)(pretrained=False, **keywords)
    if name in gluoncv_names.PRUNED:  # their shapes come from a file made for 1000 classes
        with net.name_scope():
            net.fc = mx.gluon.nn.Dense(num_classes, in_units=net.fc.weight.shape[1])
        # They are initialised in GluonCV's way, without --init and --seed.
        for parameter in net.collect_params().values():
            parameter._data, parameter._grad, parameter._deferred_init = None, None, ()
    return net


def check_sizes(net: Block, name: str, num_classes: int) -> None:
    """Refuse parameters that are too large for MXNet, which would print a C++ stack when it makes the arrays."""
    for parameter in net.collect_params().values():
        if math.prod(parameter.shape or ()) > LARGEST_ARRAY:
            raise UsageError(
                f"--model {name}: {parameter.name} of shape {parameter.shape} for {num_classes} classes is more than "
                "MXNet takes in one array; give a lower --num-classes or a smaller net"
            )


def compile(
    net: Block,
    name: str,
    contexts: Sequence[Device],
    contract: Contract,
    narrowing: Autocast | None = None,
    micro_batch: int = 1,
    flag: str = "--model",
    one_by_one: bool = False,
) -> None:
    """Fix all shapes, and turn the net, which `flag` calls `name`, into a symbolic graph if it can be one.

    That is so whatever becomes of our rewrites, which are no reason to run it operator by operator.

    A sample is computed only where shapes do not follow from the graph, by whatever graphs the net has as it comes, and
    to try the graph of a user's own net.
    Only a graph has operators in bfloat16: those that `narrowing` takes for a `micro_batch` of samples. MXNet queues a
    graph's operators several at a time, which takes a little less, or `one_by_one`, for a profile to tell them apart.
    UsageError if the net does not take or answer what the `contract` says.
    """
    sample = [mx.nd.zeros((1, *shape), ctx=contexts[0]) for shape in contract.inputs]
    answer = None if contract.answer is None else (1, *contract.answer)
    shapes_known = shapes.fill_parameters(net, sample[0].shape) if len(sample) == 1 else None
    is_computed = shapes_known is None or answer not in (None, shapes_known)
    if is_computed:
        with graph_rewrites.rewriting():
            output = _computed(net, f"{flag} {name}", sample, contract)
        _check_output(f"{flag} {name}", output, contract)
    refuse_unused(f"{flag} {name}", net)
    if is_computed:
        _lay_out_plainly(net)
    if all(parameter.grad_req == "null" for parameter in net.collect_params().values()):
        raise UsageError(f"{flag} {name}: has no parameters to train")
    if not isinstance(net, mx.gluon.HybridBlock):
        if narrowing or not tables_of(net):  # with a table it cannot be one, and compiles its parts itself
            logger.warning("%s runs imperatively%s: it is no HybridBlock", name, _in_float32(narrowing))
        return
    try:
        inputs = [(micro_batch, *shape) for shape in contract.inputs]
        with rewriting(narrowing):
            compile_graph(net, inputs, contexts[0], one_by_one)
            if ":" in name:  # a user's own net is tried; known ones are by our tests
                _try(net, sample)
                _lay_out_plainly(net)
    except (fallbacks.FallbackRefused, fallbacks.RewriteFailed):
        raise
    except Exception as error:
        net.hybridize(active=False)
        reason = mxnet_errors.reason_of(error)
        logger.warning(
            "%s runs imperatively%s, it will not hybridize: %s", name, _in_float32(narrowing), reason
        )


def compile_graph(net: Block, inputs: Sequence[Shape], context: Device, one_by_one: bool = False) -> None:
    """Turn a net whose shapes are known into a symbolic graph, rewritten for inputs of these shapes."""
    queueing = {"forward_bulk_size": 0, "backward_bulk_size": 0} if one_by_one else {}
    net.hybridize(static_alloc=True, static_shape=True, **queueing)
    net._get_graph(*(mx.nd.empty(shape, ctx=context) for shape in inputs))  # made once, for these shapes
    net._build_cache(*(mx.nd.empty((1, *shape[1:]), ctx=context) for shape in inputs))


def _try(net: Block, sample: Sequence[NDArray]) -> None:
    try:
        net(*sample)
        mx.nd.waitall()
    except mx.base.MXNetError as error:
        computed_plainly(net, error, lambda: net(*sample))


def computed_plainly(net: Block, error: Exception, compute: Callable[[], Answer]) -> Answer:
    """Return what `compute` does once a net that failed with `error` is compiled anew, by its graph as it is.

    Raises `error` where that is not another graph, and what the graph as it is fails with, which is the net's fault.
    """
    mxnet_errors.forget()
    if not graph_rewrites.take_plain_graphs(net):
        raise error
    found = compute()
    mx.nd.waitall()
    fallbacks.report("the net's graph as rewritten for speed cannot be computed", error, fallbacks.AS_IT_IS)
    return found


def _computed(net: Block, named: str, sample: Sequence[NDArray], contract: Contract) -> Any:
    """Return what the net makes of one sample, which gives its parameters their shapes and values."""
    try:
        output = net(*sample)
        mx.nd.waitall()
    except (mx.base.MXNetError, ValueError) as error:
        raise UsageError(f"{named} does not take {contract.takes}: {mxnet_errors.reason_of(error)}") from None
    return output


def _lay_out_plainly(net: Block) -> None:
    """Give parameters new, plain arrays: oneDNN has laid out those of convolutions as it computed the sample.

    MXNet cannot cast them from there if they are of convolutions in groups, whose layout has one more axis, nor copy
    into them, as to further devices, if they are of convolutions over one or three dimensions.
    """
    for parameter in net.collect_params().values():
        values = mx.nd.array(parameter.data(parameter.list_ctx()[0]).asnumpy(), dtype=parameter.dtype)
        parameter._init_impl(values, parameter.list_ctx())


def _in_float32(narrowing: Autocast | None) -> str:
    return " and in float32, whatever --amp says" if narrowing else ""


def _check_output(named: str, output: Any, contract: Contract) -> None:
    """Refuse a wrong number of outputs: MXNet clips labels to the outputs there are, so too few train silently."""
    shape = getattr(output, "shape", f"a {type(output).__name__}")
    if contract.answer is not None and shape != (1, *contract.answer):
        raise UsageError(f"{named}: gives {shape} for one {contract.noun}, but {contract.expects}")


def refuse_unused(named: str, net: Block) -> None:
    """Refuse a layer that was not called: the shape of its parameters is unknown."""
    unknown = [parameter.name for parameter in net.collect_params().values() if parameter._deferred_init]
    if unknown:
        raise UsageError(
            f"{named}: has a layer that it never calls ({', '.join(unknown)}); take it out, or give it the "
            "numbers that it takes (in_units, in_channels)"
        )
