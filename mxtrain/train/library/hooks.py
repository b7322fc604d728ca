"""Hooks of a program: functions of its own that see the records of a run, and may end it.

Owns which record each of them gets, and what comes of what they raise.
"""

from __future__ import annotations

import contextlib
import copy
from typing import Callable, Mapping, Optional

from mxtrain.core.errors import Stop, StopTraining, UsageError, in_user_code
from mxtrain.report.sinks.record import BEGINNINGS, ENDS, Record
from mxtrain.train import signals

Hook = Optional[Callable[[Record], object]]

# The hook of each record, by its kind or, where it is one, by its event.
_OF_RECORDS = {
    "train": "on_step",
    "eval": "on_evaluation",
    **dict.fromkeys(BEGINNINGS, "on_begin"),
    **dict.fromkeys(ENDS, "on_end"),
}


class Hooks:
    """The hooks by name, such as `on_step`; each gets a copy of its records.

    StopTraining in one of them becomes one of `stop_requests`.
    """

    def __init__(self, hooks: Mapping[str, Hook], stop_requests: list[Stop]):
        self._hooks, self._stop_requests = hooks, stop_requests
        self._last: Record | None = None

    def show(self, record: Record) -> None:
        """Show a record to its hook; that of the end waits for `end`, when all is written."""
        name = _OF_RECORDS.get(str(record.get("event", record["kind"])), "")
        if name == "on_end":
            self._last = copy.deepcopy(record)
            return
        try:
            self._call(name, record)
        except StopTraining:
            self._stop_requests.append(signals.BY_HOOK)

    def end(self) -> None:
        """Show the record of the end to its hook, if the run has begun; there is nothing left to be stopped."""
        if self._last is not None:
            with contextlib.suppress(StopTraining):
                self._call("on_end", self._last)

    def _call(self, name: str, record: Record) -> None:
        hook = self._hooks.get(name)
        if hook is not None:
            with in_user_code(name):
                hook(copy.deepcopy(record))


def check(hooks: Mapping[str, Hook]) -> None:
    """Refuse, with a UsageError, what cannot be called."""
    for name, hook in hooks.items():
        if hook is not None and not callable(hook):
            raise UsageError(f"{name}: is a {type(hook).__name__}; give a function of a record")
