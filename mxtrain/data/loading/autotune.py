"""The number of loader workers, grown while the consumer waits for batches and more workers make them faster.

Owns the arithmetic on measured times alone; `worker_pool.py` owns the workers.
"""

from __future__ import annotations

WINDOW_SECONDS, WINDOW_BATCHES = 1.0, 4
# A consumer that waits for less of its time is not held up by the loader.
TOLERATED_WAIT = 0.1
# Workers that gain less were added in vain: disk or cores are the bottleneck.
LEAST_GAIN = 1.05


class Autotuner:
    """Starts with a quarter of `max_workers`, and grows by a quarter at a time; with `grows` False it has them all."""

    def __init__(self, max_workers: int, grows: bool = True):
        self.num_workers = max(1, max_workers // 4) if grows else max_workers
        self._max_workers = max_workers
        self._window_start: float | None = None
        self._waited = 0.0
        self._num_batches = 0
        self._rate_before = 0.0

    def workers_to_add(self, waited: float, now: float) -> int:
        """Return how many workers to add, after a batch that arrived at `now` and was waited for `waited` seconds."""
        if self.num_workers == self._max_workers:
            return 0
        if self._window_start is None:  # every consumer waits for the first batch
            self._window_start = now
            return 0
        self._waited += waited
        self._num_batches += 1
        seconds = now - self._window_start
        if seconds < WINDOW_SECONDS or self._num_batches < WINDOW_BATCHES:
            return 0
        rate, is_waiting = self._num_batches / seconds, self._waited > TOLERATED_WAIT * seconds
        self._window_start, self._waited, self._num_batches = now, 0.0, 0
        if not is_waiting:
            return 0
        if rate < LEAST_GAIN * self._rate_before:
            self._max_workers = self.num_workers
            return 0
        self._rate_before = rate
        added = min(max(1, self.num_workers // 4), self._max_workers - self.num_workers)
        self.num_workers += added
        return added
