"""Words about profiled steps: stages, the costliest operators and layers, and what to do about the first. Pure."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence

from mxtrain.report import trace
from mxtrain.report.trace import Span, Total

BACKWARD = "_backward_"
SEVERAL = "ImperativeBulk"  # MXNet's name for operators that it runs as one
SHOWN = 6
MUCH_WAITING, MUCH_SUMMING = 0.2, 0.3  # of the time of the steps
TINY_MICROS, IDLE_SHARE = 30.0, 0.5  # of operators; of the time of computing in which none runs
PRODUCTS = ("Convolution", "FullyConnected", "Deconvolution", "batch_dot", "dot")
MOVES_MEMORY = ("BatchNorm", "Activation", "relu", "elemwise_add", "Pooling", "Concat")
SHORTER = "--window shorter: attention's time grows with its square"
FEWER_OUTPUTS = (
    "fewer outputs (--num-classes, a smaller vocabulary): the loss takes as long as its rows are wide"
)
ADVICE = {
    "clip": "--model with plain relu, as mobilenet1.0 in the place of mobilenetv2_1.0: clipping takes longer than relu",
    "LayerNorm": "--micro-batch larger: LayerNorm's backward pass runs row by row, and pays off in fewer, larger calls",
    "Embedding": "mxtrain.models.nets.sparse.SparseEmbedding in your net: its gradient has only the rows of the batch, "
    "an Embedding's has all of the table",
    "RNN": "--window shorter: an LSTM's steps follow each other, so its time grows with their number",
    "log_softmax": FEWER_OUTPUTS,
    "mxtrain_cross_entropy": FEWER_OUTPUTS,
    "softmax": SHORTER,
    "mxtrain_attention": SHORTER,
    "Dropout": "less dropout, if the net does not overfit: drawing the masks takes this long",
    "UpSampling": "a smaller --image-size: it only copies numbers",
    SEVERAL: "mx.gluon.HybridBlock for what runs as a Block: MXNet ran several operators as one, without their names",
}


class Facts(NamedTuple):
    """Facts about a run: the device, the precision, the net."""

    device: str  # cpu or gpu
    amp: str
    has_bf16: bool  # this CPU, in kernels of MXNet's
    is_compiled: bool  # the net, as one graph
    is_own_net: bool


def lines(operators: Sequence[Span], stages: Sequence[Span], facts: Facts) -> list[str]:
    """Return lines for a person: stages, operators, layers, and what can be done."""
    seconds = trace.seconds_of(stages)
    by_name, by_layer = trace.totals(operators), trace.totals(operators, "layer")
    found = [f"stages: {_shares(list(seconds.items()))}", f"operators: {_costliest(by_name)}"]
    if by_layer:
        found.append(f"layers: {_costliest(by_layer, sum(each.micros for each in by_name))}")
    return [*found, f"first: {advise(by_name, seconds, trace.busy_micros(operators), facts)}"]


def advise(operators: Sequence[Total], seconds: Mapping[str, float], busy_micros: float, facts: Facts) -> str:
    """Return what to do first, beginning with the flag to paste where there is one, and why."""
    whole = sum(seconds.values())
    waiting, summing = seconds.get("load", 0.0), seconds.get("synchronize", 0.0)
    if waiting > MUCH_WAITING * whole:
        return f"--cache ram, or more --loader-workers: {waiting / whole:.0%} of the time no batch was ready"
    if summing > MUCH_SUMMING * whole:
        return (
            f"--batch-size larger: {summing / whole:.0%} of the time goes into sums over devices and workers"
        )
    if not operators:
        return "no operator ran"
    computing = whole - waiting - summing
    calls, micros = sum(each.calls for each in operators), sum(each.micros for each in operators)
    if micros < TINY_MICROS * calls or busy_micros < IDLE_SHARE * 1e6 * computing:
        if not facts.is_compiled:
            return f"make the net a HybridBlock: {calls} operators of {micros / calls:.0f} us, each started from Python"
        return (
            f"--micro-batch larger: operators take {micros / calls:.0f} us in the mean, and one runs in only "
            f"{busy_micros / 1e6 / max(computing, 1e-9):.0%} of the time of computing"
        )
    return _about(operators, facts)


def _about(operators: Sequence[Total], facts: Facts) -> str:
    """Return what to do about the costliest kind of operator, forward and backward together."""
    micros = sum(each.micros for each in operators)
    micros_of: dict[str, float] = {}
    for each in operators:
        operator = each.name[len(BACKWARD) :] if each.name.startswith(BACKWARD) else each.name
        micros_of[operator] = micros_of.get(operator, 0.0) + each.micros
    if facts.is_compiled and len(micros_of) > 1:
        micros_of.pop(
            SEVERAL, None
        )  # of the loss: MXNet runs what is recorded outside a graph as one, going backward
    first = max(micros_of, key=lambda operator: micros_of[operator])
    reason = f"{_in_words(first)} takes {micros_of[first] / micros:.0%} of the operators' time"
    is_wide = facts.amp == "off"
    if first in (*PRODUCTS, *MOVES_MEMORY) and is_wide and (facts.device == "gpu" or facts.has_bf16):
        flag = "fp16" if facts.device == "gpu" else "auto"
        return f"--amp {flag}: {reason}, in float32"
    if first.endswith("_update"):
        return f"--batch-size larger: {reason}; the optimizer then moves the weights less often"
    if first in ADVICE:
        return f"{ADVICE[first]}; {reason}"
    if first in PRODUCTS:
        return f"{reason}: this is the work itself; a smaller --model or --image-size has less of it"
    return f"{reason}; no flag makes it cheaper" + (" - it is your own net's" if facts.is_own_net else "")


def _in_words(name: str) -> str:
    if name == SEVERAL:
        return "several at once"
    return f"{name[len(BACKWARD) :]} backward" if name.startswith(BACKWARD) else name


def _costliest(totals: Sequence[Total], whole: float = 0.0) -> str:
    whole = whole or sum(each.micros for each in totals)
    return ", ".join(
        f"{_in_words(each.name)} {each.micros / whole:.0%} ({each.calls} x {each.micros / each.calls / 1e3:.3g} ms)"
        for each in totals[:SHOWN]
    )


def _shares(seconds: Sequence[tuple[str, float]]) -> str:
    whole = sum(each for _, each in seconds)
    return ", ".join(f"{name} {each / whole:.0%}" for name, each in seconds if whole)
