"""When a checkpoint is due, and its way to disk beside the training.

The loop waits for copies in memory only; a thread encodes, checks, writes and prunes. One write is under way at a
time: whoever wants the next waits for it, and so does the end of the run. A write that failed ends the run at
the next step.
"""

from __future__ import annotations

import concurrent.futures
import time
from pathlib import Path
from types import TracebackType
from typing import Callable

from mxtrain.checkpoint import directory
from mxtrain.checkpoint.directory import Snapshot
from mxtrain.cluster.worker_group import SINGLE_WORKER
from mxtrain.config import Output
from mxtrain.core.durable import fsync, writing
from mxtrain.core.errors import Stop


class Saver:
    """A run's checkpoints, as `keep` wants them. Leaving it as a context waits for the write under way.

    The thread that writes calls `advance` with every piece that has come to disk.
    """

    def __init__(self, output: Output, advance: Callable[[], None] = SINGLE_WORKER.report_progress):
        self.output, self._advance = output, advance
        self.thread = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self.under_way: concurrent.futures.Future[None] | None = None
        self.last_seconds = time.monotonic()

    def is_time(self) -> bool:
        """Whether the minutes are over, by the clock of this worker."""
        return 0 < self.output.checkpoint_minutes <= (time.monotonic() - self.last_seconds) / 60

    def is_due(self, step: int, anyway: bool) -> bool:
        """Whether to save now; if so, the write before has ended. Raises what went wrong in that one."""
        every = self.output.checkpoint_steps
        due = anyway or (every > 0 and step % every == 0)
        if due or (self.under_way is not None and self.under_way.done()):
            self.wait()
        return due

    def save(self, snapshot: Snapshot | None) -> None:
        """Begin to write; None where another worker does."""
        self.wait()
        self.last_seconds = time.monotonic()
        if snapshot is not None:
            self.under_way = self.thread.submit(self._write, snapshot)

    def wait(self) -> None:
        """Until nothing is under way."""
        ended, self.under_way = self.under_way, None
        if ended is not None:
            ended.result()

    def _write(self, snapshot: Snapshot) -> None:
        folder = Path(self.output.out) / "checkpoints"
        with writing(folder):
            # Also after a power cut, the metrics are never behind the checkpoint.
            fsync(Path(self.output.out) / "metrics.jsonl")
            directory.write(folder, snapshot, self._advance)
            directory.prune(folder, self.output.keep_last, self.output.keep_best)

    def __enter__(self) -> Saver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.thread.shutdown(wait=True)
        # "Stopped after a checkpoint" is untrue where that one failed; but what is our bug keeps its traceback.
        if error is None or isinstance(error, Stop):
            self.wait()
