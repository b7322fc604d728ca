"""Random initial weights: `--init`, and `--zero-gamma` for residual nets.

Owns what a name of `--init` means in MXNet's terms. A layer's own initialiser (biases, norms) has precedence. Weights
from files are `pretrained.py`'s.
"""

from __future__ import annotations

import logging
import warnings
from typing import Any, Sequence

from mxtrain.config.components import import_path
from mxtrain.config.components import initializers as components
from mxtrain.core.errors import UsageError, as_user_code
from mxtrain.models.analysis import graph
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block, Device, NDArray, Parameter

logger = logging.getLogger(__name__)

ZEROS = (
    "zeros"  # no value of --init: for weights that a file brings, as drawing them takes half a second a net
)


def initialize(net: Block, text: str, contexts: Sequence[Device], seed: int) -> None:
    """Initialise the net as `text`, the value of `--init` or ZEROS, says: from `seed`, the same on every context.

    A user's net keeps what it brings: values, and initialisers of parameters that still wait for their shape.
    """
    mx.random.seed(seed)
    for parameter in net.collect_params().values():
        if parameter._data is not None:  # in plain order: oneDNN lays out what it has computed with
            values = mx.nd.array(parameter.data(parameter.list_ctx()[0]).asnumpy(), dtype=parameter.dtype)
            parameter._init_impl(values, list(contexts))
        elif parameter._deferred_init:
            parameter.reset_ctx(list(contexts))
    others = [each for each in net.collect_params().values() if not is_brought(each)]
    with warnings.catch_warnings():
        # Gluon warns about each layer that has an initialiser of its own.
        warnings.simplefilter("ignore")
        default = mx.init.Zero() if text == ZEROS else build(text)
        for parameter in others:
            parameter.initialize(None, list(contexts), default)


def is_brought(parameter: Parameter) -> bool:
    """Return whether a user has initialised the parameter, which may have to wait for its shape."""
    return parameter._data is not None or bool(parameter._deferred_init)


def is_name(text: str) -> bool:
    """Return whether `text` is no initialiser of the user's own."""
    return text == ZEROS or components.parse(text).name in components.INITIALIZERS


def build(text: str) -> Any:
    """Return the MXNet initialiser that `--init` describes."""
    name, hyperparameters = components.parse(text)
    if name in components.INITIALIZERS:
        component = components.INITIALIZERS[name]
        initializer = component.load()(**hyperparameters)
        return initializer if component.takes_any_shape else MatrixInitializer(text, initializer)
    made = as_user_code(f"--init {name}", import_path.load_callable("--init", name))()
    if not isinstance(made, mx.init.Initializer):
        raise UsageError(f"--init {name}: returned a {type(made).__name__}, not an mxnet Initializer")
    return made


class MatrixInitializer(mx.init.Initializer):
    """An initialiser by a weight's numbers of inputs and outputs; UsageError for weights of one dimension."""

    def __init__(self, text: str, inner: Any):
        super().__init__()
        self.text, self.inner = text, inner

    def _init_weight(self, name: str, array: NDArray) -> None:
        if len(array.shape) < 2:
            raise UsageError(
                f"--init {self.text}: needs two dimensions, and {name} has the shape {array.shape}; give that one "
                "an init of its own, or --init normal or uniform"
            )
        self.inner._init_weight(name, array)


def msra(slope: float) -> Any:
    """Return He's initialiser: a ReLU halves the variance, a leaky one with this slope takes less."""
    return mx.init.Xavier("gaussian", "in", magnitude=2 / (1 + slope**2))


def msra_out(slope: float) -> Any:
    """Return the same by the number of outputs."""
    return mx.init.Xavier("gaussian", "out", magnitude=2 / (1 + slope**2))


def xavier(magnitude: float) -> Any:
    """Return Glorot's initialiser."""
    return mx.init.Xavier("uniform", "avg", magnitude)


def xavier_normal(magnitude: float) -> Any:
    """Return Glorot's with a normal distribution."""
    return mx.init.Xavier("gaussian", "avg", magnitude)


def zero_gamma(net: Block, name: str) -> None:
    """Give the last norm of each residual branch a scale of zero, so that the net starts as its shortcuts.

    Call it before `initialize`, which then draws the other parameters. UsageError if there is no such norm.
    """
    try:
        branches = graph.residual_branches(graph.trace(net))
    except Exception as error:
        raise UsageError(
            f"--zero-gamma: {name} cannot be read as a graph ({type(error).__name__}); leave it out"
        ) from None
    if not branches.gammas:
        raise UsageError(f"--zero-gamma: {name} has no residual branch that ends in a norm; leave it out")
    gammas = [each for each in net.collect_params().values() if each.name in branches.gammas]
    frozen = [gamma.name for gamma in gammas if gamma.grad_req == "null"]
    if frozen:
        raise UsageError(
            f"--zero-gamma: {frozen[0]} is frozen, so its branch would stay zero; leave --zero-gamma out, "
            "or --freeze less"
        )
    for gamma in gammas:
        gamma.init = mx.init.Zero()
    rest = f"; {branches.num_without} others end in no norm" if branches.num_without else ""
    logger.info("--zero-gamma: %d residual branches start at zero%s", len(branches.gammas), rest)
