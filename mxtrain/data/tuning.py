"""How many loader workers are of use: more are added while batches are waited for and come faster each time.

Arithmetic on times that are handed in; who works is `worker_pool.py`'s.
"""

from __future__ import annotations

WINDOW_SECONDS, WINDOW_BATCHES = 1.0, 4
# Waiting for less of its time, the consumer is not held up by the loader.
TOLERATED_WAIT = 0.1
# An addition that gained less was one too many: the disk or the cores are what is missing.
LEAST_GAIN = 1.05


class Tuner:
    """Starts with a quarter of the most there may be, and grows by a quarter at a time."""

    def __init__(self, most: int, grows: bool = True):
        self.num_workers = max(1, most // 4) if grows else most
        self._most = most
        self._started: float | None = None
        self._waited = 0.0
        self._num_batches = 0
        self._rate_before = 0.0

    def more(self, waited: float, now: float) -> int:
        """How many workers to add, after one more batch that was waited for so many seconds."""
        if self.num_workers == self._most:
            return 0
        if self._started is None:  # the first batch is waited for by everyone
            self._started = now
            return 0
        self._waited += waited
        self._num_batches += 1
        seconds = now - self._started
        if seconds < WINDOW_SECONDS or self._num_batches < WINDOW_BATCHES:
            return 0
        rate, is_waiting = self._num_batches / seconds, self._waited > TOLERATED_WAIT * seconds
        self._started, self._waited, self._num_batches = now, 0.0, 0
        if not is_waiting:
            return 0
        if rate < LEAST_GAIN * self._rate_before:
            self._most = self.num_workers
            return 0
        self._rate_before = rate
        added = min(max(1, self.num_workers // 4), self._most - self.num_workers)
        self.num_workers += added
        return added
