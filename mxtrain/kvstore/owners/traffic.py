"""The way between a step and the owners, in a thread of its own: weights and sums travel while the step computes.

All goes through one thread, in the order in which it was asked for, so that owners see one caller.
"""

from __future__ import annotations

import concurrent.futures
from typing import Any, Sequence

from mxtrain.data.fields import Array
from mxtrain.kvstore.owners.owner import GradientSum, Owners


class Transfer:
    """Arrays on their way."""

    def __init__(self, future: concurrent.futures.Future[None]):
        self._future = future

    def wait(self) -> None:
        """Return once they have arrived; raises what kept them from it."""
        self._future.result()


class Traffic:
    """The traffic of one worker with `owners`."""

    def __init__(self, owners: Owners):
        self._owners = owners
        self._thread = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="owners")
        self._sent: Transfer | None = None

    def pull(self, indices: Sequence[int], into: Sequence[Array]) -> Transfer:
        """Start to copy weights into these arrays."""
        return Transfer(self._thread.submit(self._pull, indices, into))

    def _pull(self, indices: Sequence[int], into: Sequence[Array]) -> None:
        self._owners.pull(indices, into).wait()

    def push(self, sums: Sequence[tuple[int, GradientSum]], kept: Sequence[Any] = ()) -> None:
        """Start to send sums, once those before have been sent: arrays of two segments are there at a time.

        `kept` is whose memory they are in.
        """
        self.finish_pushes()
        self._sent = Transfer(self._thread.submit(self._push, sums, kept))

    def _push(self, sums: Sequence[tuple[int, GradientSum]], kept: Sequence[Any]) -> None:
        for index, gradient in sums:
            self._owners.push(index, gradient)

    def finish_pushes(self) -> None:
        """Wait until all sums have been sent."""
        sent, self._sent = self._sent, None
        if sent is not None:
            sent.wait()
