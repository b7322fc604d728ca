"""`--profile FIRST:LAST`: MXNet's profiler and our stages over a few steps, as one trace, and what it says.

Owns MXNet's profiler, which is one for the process: it is configured once, and off outside these steps. Does not own
the trace's form (`report/trace.py`) nor its words (`report/profile_advice.py`). A run with --profile has its net
compiled so that MXNet queues operators one by one (`models/nets/zoo.py`), or they would share names; no bit depends on
it.
"""

from __future__ import annotations

import json
import logging
import secrets
import shutil
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Callable, Sequence

from mxtrain.config.values import step_range
from mxtrain.core import durable
from mxtrain.core.errors import UsageError, message_of
from mxtrain.core.system import kernels
from mxtrain.models import remat
from mxtrain.models.analysis import flops, operator_layers
from mxtrain.models.compiled_graphs import OperatorByPurpose
from mxtrain.models.parameters import weights
from mxtrain.models.rewrites.graph_rewrites import Graph
from mxtrain.report import profile_advice, trace
from mxtrain.report.trace import Span
from mxtrain.runtime import mx
from mxtrain.train.context import TrainContext
from mxtrain.train.telemetry.stage_clock import OTHER, Lap

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block

logger = logging.getLogger(__name__)

_written: list[Path] = []  # one: what MXNet's profiler of this process writes


class StepProfiler:
    """The profile of the steps that `--profile` names; does nothing without it, and on other workers than the first."""

    def __init__(self, context: TrainContext, done: int):
        self._run, self._context = context.run, context
        run = context.run
        is_profiled = bool(run.output.profile) and context.group.rank == 0
        self._steps = step_range.parse(run.output.profile) if is_profiled else None
        self._bulk_size: int | None = None  # the one to put back; None while the profiler is off
        if self._steps is not None and self._steps.last <= done:
            logger.info("--profile %s: these steps are done already, nothing is profiled", self._steps)
            self._steps = None

    def __enter__(self) -> StepProfiler:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop()

    def before_step(self, step: int) -> None:
        """Start the profiler if `step`, counted from 1, is the first of those, or the first that a resumed run does."""
        if self._steps is None or not self._steps.first <= step <= self._steps.last:
            return
        if self._bulk_size is None:
            self._start()
        self._begun.append((step, time.monotonic()))

    def after_step(self, step: int, epoch: int, report: Callable[..., None]) -> None:
        """Write the trace after the last of the steps, tell what is in it, and `report` it as an event.

        A run goes on without a trace that cannot be made.
        """
        if self._steps is None or self._bulk_size is None:
            return
        self._ended.append(time.monotonic())
        if step < self._steps.last:
            return
        laps = self._context.clock.spans or []
        self._stop()
        try:
            text, lines = self._trace(laps, step)
        except Exception as error:
            logger.warning("--profile %s: no trace could be made: %s", self._steps, message_of(error))
            logger.debug("of the trace", exc_info=True)
        else:
            logger.info("%s", "\n  ".join([text, *lines]))
            report("profile", text, step, epoch, lines=lines)
        self._steps = None

    def _trace(self, laps: Sequence[Lap], last: int) -> tuple[str, list[str]]:
        """Write the trace of the steps up to `last`, and return where it is and what is in it."""
        operators, is_compiled = _with_layers(
            _operators(), self._context.net, [(1, *shape) for shape in self._context.task.contract().inputs]
        )
        stages = [self._span(each.what, each.began, each.ended) for each in laps]
        steps = [
            self._span(f"step {each}", began, end) for (each, began), end in zip(self._begun, self._ended)
        ]
        path = Path(self._run.output.out) / "logs" / "profile.json"
        title = f"{self._run.model.model}, steps {self._begun[0][0]} to {last}"
        path.parent.mkdir(parents=True, exist_ok=True)
        durable.replace(path, trace.to_json(operators, stages, steps, title))
        text = (
            f"steps {self._begun[0][0]} to {last} profiled: {path}, for ui.perfetto.dev or chrome://tracing"
        )
        return text, profile_advice.lines(operators, stages, _facts(self._context, is_compiled))

    def _start(self) -> None:
        _configure(self._run.output.profile)
        self._begun: list[tuple[int, float]] = []
        self._ended: list[float] = []
        self._bulk_size = mx.engine.set_bulk_size(0)
        self._clock_offset = time.time() - time.monotonic()  # MXNet's times are the wall clock's
        mx.profiler.set_state("run")
        self._context.clock.lap(OTHER)
        self._context.clock.spans = []

    def _stop(self) -> None:
        if self._bulk_size is None:
            return
        mx.nd.waitall()
        mx.profiler.set_state("stop")
        mx.engine.set_bulk_size(self._bulk_size)
        self._context.clock.spans, self._bulk_size = None, None

    def _span(self, name: str, *times: float) -> Span:
        began, ended = ((each + self._clock_offset) * 1e6 for each in times)
        return Span(name, began, ended)


def _configure(flag: str) -> None:
    """Tell MXNet's profiler what to note and where to write it, the first time; a second one it does not survive."""
    if _written:
        return
    folder = Path(tempfile.gettempdir()) / f"mxtrain-profile-{secrets.token_hex(16)}"
    try:
        mx.profiler.set_config(
            **{
                "filename": str(folder / "operators.json"),
                "profile_symbolic": True,
                "profile_imperative": True,
            },
            **{"profile_api": False, "profile_memory": False, "aggregate_stats": False},
            continuous_dump=False,  # or what ran is written, and forgotten, each second, before the folder is there
        )
    except mx.base.MXNetError:
        raise UsageError(
            f"--profile {flag}: your own code has configured MXNet's profiler, of which a process has one; leave out "
            "one of the two"
        ) from None
    _written.append(folder / "operators.json")


def _operators() -> list[Span]:
    """Return the operators that ran since the last time, from what the profiler writes."""
    file = _written[0]
    file.parent.mkdir(mode=0o700)
    try:
        mx.profiler.dump(finished=False)
        return trace.operators_of(file.read_text(encoding="utf-8"))
    finally:
        shutil.rmtree(file.parent)  # what comes later would be added to the file


def _with_layers(
    operators: Sequence[Span], net: Block, inputs: Sequence[Sequence[int]]
) -> tuple[list[Span], bool]:
    """Return the operators with their layers, as far as the net is one graph, and whether it is compiled."""
    graph = _graph_of(net)
    if graph is None:
        return list(operators), isinstance(net, remat.RecomputedNet)  # that is several graphs
    in_checkpoints = {parameter.name: name for name, parameter in weights.named_parameters(net).items()}
    layers = operator_layers.layer_names(graph, in_checkpoints)
    work = {node.name: float(node.forward) for node in flops.of_net(net, inputs) or ()}
    spans = list(operators)
    for device in {each.device for each in operators}:
        own = [place for place, each in enumerate(spans) if each.device == device]
        names, micros = [spans[place].name for place in own], [spans[place].micros for place in own]
        nodes = operator_layers.nodes_that_ran(names, micros, graph, work)
        for place, node in zip(own, nodes):
            if node is not None:
                spans[place] = spans[place]._replace(layer=layers[node])
    return spans, True


def _graph_of(net: Block) -> Graph | None:
    """Return the graph that the net trains by; None where it is not compiled as a whole."""
    compiled = getattr(net, "_cached_op", None)
    if compiled is None:
        return None
    symbol = compiled.symbol if isinstance(compiled, OperatorByPurpose) else net._cached_graph[1]
    graph: Graph = json.loads(symbol.tojson(remove_amp_cast=False))
    return graph


def _facts(context: TrainContext, is_compiled: bool) -> profile_advice.Facts:
    model = context.run.model
    has_bf16 = kernels.bf16_problem() is None
    device = context.devices[0].device_type
    return profile_advice.Facts(device, model.amp, has_bf16, is_compiled, ":" in model.model)
