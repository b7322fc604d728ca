"""Learning rate schedules by name: `--schedule`. To add one is an entry here, and a function of a point of the run.

Owns their numbers and parsing the flag. The functions are in `mxtrain/optim/schedules.py`.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from mxtrain.config.components import component
from mxtrain.config.components.component import Component, Number, Spec, by_name
from mxtrain.core.errors import UsageError

if TYPE_CHECKING:
    from mxtrain.config import Optim


@dataclasses.dataclass(frozen=True)
class Schedule(Component):
    """A schedule; its factory is a function of a `SchedulePoint` and its numbers that returns a factor of the peak."""

    counts_epochs: bool = False  # and does not depend on the length of the run


_FLOOR, _FACTOR, _EPOCHS = Number(0.0, 0.0, 1.0), Number(0.1, 1e-6, 1.0), (0.001, 1e6)
_OWN = "mxtrain.optim.schedules:"

SCHEDULES = by_name(
    Schedule("constant", "1", _OWN + "constant", counts_epochs=True),
    Schedule(
        "cosine",
        "half a cosine wave from 1 to `floor`; with more `cycles` as often, all of one length, each from `decay` times "
        "the one before",
        _OWN + "cosine",
        {"cycles": Number(1, 1, 10000), "decay": Number(1.0, 0.0, 1.0), "floor": _FLOOR},
    ),
    Schedule("linear", "a line from 1 to `floor`", _OWN + "linear", {"floor": _FLOOR}),
    Schedule(
        "poly",
        "`floor` + (1 - `floor`) (1 - p)^`power`",
        _OWN + "poly",
        {"power": Number(2.0, 0.01, 100.0), "floor": _FLOOR},
    ),
    Schedule(
        "sigmoid",
        "1 / (1 + exp(`steepness` (p - `middle`))), stretched to go from 1 to `floor`",
        _OWN + "sigmoid",
        {"steepness": Number(10.0, 0.01, 100.0), "middle": Number(0.5, 0.0, 1.0), "floor": _FLOOR},
    ),
    Schedule(
        "one_cycle",
        "half a cosine wave from `start` to 1 in the share `rise` of the run, and another one to `floor`, as torch's; "
        "the momentum stays",
        _OWN + "one_cycle",
        {
            "rise": Number(0.3, 0.001, 0.999),
            "start": Number(0.04, 0.0, 1.0),
            "floor": Number(4e-6, 0.0, 1.0),
        },
    ),
    Schedule(
        "step",
        "times `factor` every so many epochs of the run",
        _OWN + "step",
        {"every": Number(30.0, *_EPOCHS), "factor": _FACTOR},
        counts_epochs=True,
    ),
    Schedule(
        "multistep",
        "times `factor` at each of these epochs, as in `at=30/60/80`",
        _OWN + "multistep",
        {"at": Number((), *_EPOCHS), "factor": _FACTOR},
        counts_epochs=True,
    ),
    Schedule("exp", "`factor`^e", _OWN + "exp", {"factor": Number(0.95, 1e-6, 1.0)}, counts_epochs=True),
    Schedule(
        "inv",
        "(1 + `gamma` e)^-`power`; with `gamma` 1 / `--warmup-epochs` the transformer's inverse square root",
        _OWN + "inv",
        {"gamma": Number(1.0, 0.0, 1e6), "power": Number(0.5, 0.0, 100.0)},
        counts_epochs=True,
    ),
)
EPOCH_SCHEDULES = tuple(schedule.name for schedule in SCHEDULES.values() if schedule.counts_epochs)


def parse(optim: Optim) -> Spec:
    """Parse --schedule."""
    parsed = component.parse("--schedule", optim.schedule, SCHEDULES)
    at = parsed.hyperparameters.get("at")
    if at is not None and (not at or sorted(set(at)) != list(at)):
        raise UsageError(
            f"--schedule {optim.schedule}: give the epochs where it falls, one after the other, as in "
            "multistep:at=30/60/80"
        )
    return parsed
