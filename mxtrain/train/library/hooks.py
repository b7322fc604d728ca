"""Hooks of a program: functions of its own, and methods of an object, that see what a run does and may end it.

Owns what each of them gets, and what comes of what they raise.
"""

from __future__ import annotations

import copy
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional

from mxtrain.core.errors import Stop, StopTraining, UsageError, in_user_code
from mxtrain.report.sinks.record import BEGINNINGS, ENDS, PLACE, Record
from mxtrain.train import signals
from mxtrain.train.observer import RunObserver

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block

Hook = Optional[Callable[[Record], object]]

# The function of each record, by its kind or, where it is one, by its event.
_OF_RECORDS = {
    "train": "on_step",
    "eval": "on_evaluation",
    **dict.fromkeys(BEGINNINGS, "on_begin"),
    **dict.fromkeys(ENDS, "on_end"),
}
_LOSSES = {"on_step": "loss", "on_evaluation": "val_loss"}
METHODS = ("begin", "step", "evaluation", "checkpoint", "end")


@dataclasses.dataclass(frozen=True)
class Moment:
    """A moment of a run, as a method of `hooks` gets it.

    Attributes:
        step: how many steps are done.
        epoch: the epoch of the last of them, from 1; 0 before the first step.
        net: the Gluon net that is trained. Look at it: what changes it changes the run.
        loss: the loss of this step or evaluation; None in other moments, and where no sample counts.
        metrics: the other numbers of the step or evaluation by their names in metrics.jsonl, as "lr" and
            "val_accuracy"; empty in other moments.
        checkpoint: the folder of the newest checkpoint that this call has written, None before the first.
        reason: how the run has ended, in the moment of its end: as `Result.ended` has it, or what went wrong.
    """

    step: int
    epoch: int
    net: Block
    loss: float | None = None
    metrics: Mapping[str, float] = dataclasses.field(default_factory=dict)
    checkpoint: Path | None = None
    reason: str = ""


class Hooks(RunObserver):
    """The functions by name, such as `on_step`, and the object with methods; each function gets a copy of its records.

    StopTraining in one of them becomes one of `stop_requests`, that of the begin with the first record: a run that has
    done nothing has no checkpoint to end after.
    """

    def __init__(self, functions: Mapping[str, Hook], methods: object, stop_requests: list[Stop]):
        self._functions, self._methods, self._stop_requests = functions, methods, stop_requests
        self._last: Record | None = None
        self._now: Moment | None = None
        self._stops: list[Stop] = []  # which are no requests yet

    def begin(self, net: Block, step: int, epoch: int) -> None:
        self._now = Moment(step, epoch, net)
        self._call_method("begin", self._now)

    def record(self, record: Record) -> None:
        """Show a record to its function and method; that of the end waits for `end`, when all is written."""
        name = _OF_RECORDS.get(str(record.get("event", record["kind"])), "")
        if name == "on_end":
            self._last = copy.deepcopy(record)
            return
        self._call(name, self._functions.get(name), copy.deepcopy(record))
        if self._now is not None:
            self._now = dataclasses.replace(self._now, step=record["step"], epoch=record["epoch"])
            if name in _LOSSES:
                loss = record[_LOSSES[name]]
                metrics = {key: value for key, value in record.items() if _is_metric(key, value)}
                self._call_method(
                    name[len("on_") :], dataclasses.replace(self._now, loss=loss, metrics=metrics)
                )
        self._request_stops()

    def checkpoint(self, path: Path, step: int, epoch: int) -> None:
        assert self._now is not None, "a run that saves has begun"
        self._now = dataclasses.replace(self._now, checkpoint=path)
        self._call_method("checkpoint", dataclasses.replace(self._now, step=step, epoch=epoch))
        self._request_stops()

    def end(self, reason: str | None) -> None:
        """Show the end to those who have seen the beginning; None for a run that an error ends, of which it tells."""
        if self._last is not None:
            self._call("on_end", self._functions.get("on_end"), self._last)
        if self._now is not None:
            words = reason or (self._last or {}).get("reason") or "failed in its first step"
            self._call_method("end", dataclasses.replace(self._now, reason=words))

    def _request_stops(self) -> None:
        self._stop_requests += self._stops
        self._stops.clear()

    def _call_method(self, name: str, moment: Moment) -> None:
        self._call(f"hooks.{name}", getattr(self._methods, name, None), moment)

    def _call(self, name: str, hook: Callable[[Any], object] | None, value: Any) -> None:
        if hook is None:
            return
        try:
            with in_user_code(name):
                hook(value)
        except StopTraining:
            self._stops.append(signals.BY_HOOK)


def _is_metric(name: str, value: Any) -> bool:
    return (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and name not in (*PLACE, *_LOSSES.values())
    )


def check(functions: Mapping[str, Hook], methods: object) -> None:
    """Refuse, with a UsageError, what cannot be called."""
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise UsageError(f"{name}: is a {type(function).__name__}; give a function of a record")
    if methods is None:
        return
    if isinstance(methods, type):
        raise UsageError(f"hooks: {methods.__name__} is a class; give an object of it")
    known = {name: getattr(methods, name) for name in METHODS if hasattr(methods, name)}
    if not known:
        raise UsageError(
            f"hooks: a {type(methods).__name__} has no method called {', '.join(METHODS[:-1])} or {METHODS[-1]}"
        )
    for name, method in known.items():
        if not callable(method):
            raise UsageError(
                f"hooks: its {name} is a {type(method).__name__}; give a method that takes a Moment"
            )
