"""The order of events between two training steps: what comes next, decided without doing any of it.

Pure, so that every case can be tested. `loop.py` does what is decided here.
"""

from __future__ import annotations

import enum
from typing import Literal

# How a run ends that no exception ends; the last where it had ended before.
Ending = Literal["done", "early stop", "stopped by a hook", "nothing left to do"]


class Action(enum.Enum):
    """The next thing that a run does; after SAVE, EVALUATE and TRAIN it decides again."""

    SAVE = enum.auto()
    EVALUATE = enum.auto()
    TRAIN = enum.auto()
    STOP = enum.auto()  # because somebody asked for it; a resume continues here
    FINISH = enum.auto()


def next_action(
    *, is_save_due: bool, is_evaluation_due: bool, is_finished: bool, is_stop_requested: bool
) -> Action:
    """Return what a run does next at its present step.

    Saving comes first, so that nothing that follows can lose a step. A requested stop does not wait for an evaluation:
    the run that resumes evaluates first. A run that is finished and evaluated ends as finished, whatever was requested.
    """
    if is_save_due:
        return Action.SAVE
    if is_finished and not is_evaluation_due:
        return Action.FINISH
    if is_stop_requested:
        return Action.STOP
    return Action.EVALUATE if is_evaluation_due else Action.TRAIN
