"""In which step the workers of a server are: what has to wait for which of them, and who is missing.

A step ends once all workers have said the same of it, so a message of the next one waits until then: sums of two steps
do not mix, and weights are not pulled before they are moved.
"""

from __future__ import annotations

import threading
from typing import Callable, Generic, TypeVar

from mxtrain.core.errors import RestartMe
from mxtrain.kvstore.owners.messages import ANY_STEP

Decision = TypeVar("Decision")


class Steps(Generic[Decision]):
    """The step that workers are in, at most one ahead of others, as threads for each of them wait for it."""

    def __init__(self, num_workers: int):
        self._num_workers, self._step = num_workers, 0
        self._decisions: dict[int, Decision] = {}  # by rank
        self._left: set[int] = set()
        self._failure: Exception | None = None
        self._changed = threading.Condition()

    def await_step(self, step: int) -> None:
        """Wait for the end of steps before `step`; ValueError for one that is over, or further ahead."""
        with self._changed:
            if step != ANY_STEP and not self._step <= step <= self._step + 1:
                raise ValueError(f"a message of step {step} in step {self._step}")
            self._await(lambda: self._step >= step, self._decisions)

    def await_all(self, is_there: Callable[[], bool]) -> None:
        """Wait for what all workers have a part in."""
        with self._changed:
            self._await(is_there, None)

    def decide(self, rank: int, decision: Decision, carry_out: Callable[[Decision], None]) -> None:
        """Note a worker's decision on the step; the last one's carries it out and ends the step.

        ValueError if workers disagree.
        """
        with self._changed:
            step = self._step
            self._decisions[rank] = decision
            if any(each != decision for each in self._decisions.values()):
                texts = ", ".join(f"worker-{rank} {each}" for rank, each in sorted(self._decisions.items()))
                raise ValueError(f"workers disagree on what becomes of step {step}: {texts}")
            if len(self._decisions) == self._num_workers:
                carry_out(decision)
                self._decisions, self._step = {}, step + 1
                self._changed.notify_all()
            self._await(lambda: self._step > step, self._decisions)

    def notify(self) -> None:
        """Have all who wait look again."""
        with self._changed:
            self._changed.notify_all()

    def leave(self, rank: int) -> None:
        """Note that a worker will send no more."""
        with self._changed:
            self._left.add(rank)
            self._changed.notify_all()

    def fail(self, failure: Exception) -> None:
        """Let all who wait raise what has gone wrong."""
        with self._changed:
            self._failure = self._failure or failure
            self._changed.notify_all()

    def _await(self, is_there: Callable[[], bool], came: dict[int, Decision] | None) -> None:
        """Wait; a worker that has left and has not come before keeps all from it."""

        def missing() -> set[int]:
            return self._left - set(came or ())

        self._changed.wait_for(lambda: is_there() or self._failure is not None or missing())
        if is_there():
            return
        if self._failure is not None:
            raise self._failure
        raise RestartMe(f"worker-{min(missing())}: has ended in the middle of a step")
