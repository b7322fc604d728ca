"""The checkpointer: when a checkpoint is due, and its way to disk beside the training.

The training waits for copies in memory only; a thread encodes, checks, writes and prunes. One write is under way at a
time: whoever wants the next waits for it, and so does the end of the run. A write that failed ends the run at the next
step. What a checkpoint holds is decided in `train/state.py`, its format in `directory.py`.
"""

from __future__ import annotations

import concurrent.futures
import time
from pathlib import Path
from types import TracebackType
from typing import Callable, Protocol

from mxtrain.checkpoint import directory, run_mirror
from mxtrain.checkpoint.directory import Snapshot
from mxtrain.cluster.worker_group import SINGLE_WORKER
from mxtrain.config import Output
from mxtrain.core.durable import fsync, writing
from mxtrain.core.errors import Stop


class HasStep(Protocol):
    """The state of a run, as far as it concerns the checkpointer: a value that two equal states share."""

    @property
    def step(self) -> int: ...


class Checkpointer:
    """Saves a run's checkpoints as `output` asks for them. Leaving it as a context waits for the write under way.

    `state` is where the run begins, which needs no checkpoint. The writing thread calls `report_progress` with every
    piece that has reached the disk. Who waits for a write calls `on_written` with its path and step.
    """

    def __init__(
        self,
        output: Output,
        state: HasStep | None,
        report_progress: Callable[[], None] = SINGLE_WORKER.report_progress,
        on_written: Callable[[Path, int], None] = lambda path, step: None,
    ):
        self._output, self._saved_state, self._report_progress = output, state, report_progress
        self._on_written = on_written
        self._mirror = run_mirror.of_run(output.out, output.mirror)
        self._thread = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._write_under_way: concurrent.futures.Future[tuple[Path, int]] | None = None
        self._last_seconds = time.monotonic()

    def is_interval_over(self) -> bool:
        """Return whether --checkpoint-minutes have passed since the last checkpoint, by this worker's clock."""
        return 0 < self._output.checkpoint_minutes <= (time.monotonic() - self._last_seconds) / 60

    def is_due(self, state: HasStep, is_requested: bool) -> bool:
        """Return whether `state` is to be saved: on request or every --checkpoint-steps, unless it is saved already."""
        every = self._output.checkpoint_steps
        return state != self._saved_state and (is_requested or (every > 0 and state.step % every == 0))

    def is_writing(self) -> bool:
        """Return whether a write is under way."""
        return self._write_under_way is not None and not self._write_under_way.done()

    def raise_if_failed(self) -> None:
        """Raise what went wrong in a write that has ended; does not wait for one."""
        if not self.is_writing():
            self.wait()

    def save(self, state: HasStep, snapshot: Snapshot | None) -> None:
        """Begin to write the `snapshot` of `state`; None on a worker whose disk another worker writes to."""
        self.wait()
        self._saved_state, self._last_seconds = state, time.monotonic()
        if snapshot is not None:
            self._write_under_way = self._thread.submit(self._write, snapshot)

    def wait(self) -> None:
        """Wait until no write is under way, and raise what went wrong in it."""
        write, self._write_under_way = self._write_under_way, None
        if write is not None:
            self._on_written(*write.result())

    def _write(self, snapshot: Snapshot) -> tuple[Path, int]:
        folder = Path(self._output.out) / "checkpoints"
        with writing(folder):
            # Also after a power cut, the metrics are never behind the checkpoint.
            fsync(Path(self._output.out) / "metrics.jsonl")
            path = directory.write(folder, snapshot, self._report_progress)
            directory.prune(folder, self._output.keep_last, self._output.keep_best)
        if self._mirror is not None:
            self._mirror.push()
        return path, snapshot.step

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown(wait=True)
        # "Stopped after a checkpoint" is untrue where that one failed; but a bug of ours keeps its traceback.
        if error is None or isinstance(error, Stop):
            self.wait()
