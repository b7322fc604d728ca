"""The memory of workers and servers against the rows of a table, all of them alive, a checkpoint included."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import job_memory
from benchmarks.harness.tables import Bar, markdown
from benchmarks.tables import filler
from mxtrain.tables import row_files

NUM_WORKERS, NUM_SERVERS, MICRO_BATCH = 2, 2, 32
ROW_BYTES = 8 + 4 * filler.WIDTH + 4  # of an id, its row, and adagrad_row's number
WORKER_BAR, SERVER_BAR = 10**9, 1.3


class Filled(NamedTuple):
    """Measured of a job that brought rows to life: bytes of its fullest worker and server, and of the checkpoint."""

    rows: int
    worker: int
    server: int
    checkpoint: int

    @property
    def share(self) -> float:
        """The server's bytes, times those of ids, rows and states in it."""
        return self.server / (self.rows * ROW_BYTES / NUM_SERVERS)


def fill(folder: Path, num_rows: int, deadline_seconds: float) -> Filled:
    """Have a job bring so many rows to life; RuntimeError where some are missing."""
    train, out = filler.write(folder / "numbers.rec", num_rows), folder / "filled"
    shutil.rmtree(out, ignore_errors=True)
    line = [
        *(sys.executable, "-m", "mxtrain.fit", "--task", "benchmarks.tables.filler:Filler"),
        *("--train", str(train), "--epochs", "1", "--optimizer", "sgd", "--lr", "0.1"),
        *("--batch-size", str(NUM_WORKERS * MICRO_BATCH), "--micro-batch", str(MICRO_BATCH)),
        *("--kvstore", "dist_sync", "--update", "servers", "--num-workers", str(NUM_WORKERS)),
        *("--num-servers", str(NUM_SERVERS), "--log", "none", "--out", str(out), "--resume", "never"),
        *("--sample-steps", "0", "--keep-best", "0"),
    ]
    most = job_memory.largest(line, deadline_seconds)
    (checkpoint,) = (out / "checkpoints").glob("step-*")
    alive = sum(share[-1].num_records for share in row_files.shares_of(checkpoint, "rows"))
    expected = len(range(0, num_rows, filler.IDS)) * filler.IDS
    if alive != expected:
        raise RuntimeError(f"{alive} rows of {expected} are in {checkpoint}")
    size = sum(path.stat().st_size for path in checkpoint.glob("rows.*"))
    shutil.rmtree(out)
    return Filled(expected, most["worker"], most["server"], size)


def table(filled: list[Filled]) -> str:
    """Return a row for each size."""
    rows = [
        (f"{each.rows:,}", f"{each.worker / 1e6:,.0f}", f"{each.server / 1e6:,.0f}", f"{each.share:.2f}",
         f"{each.checkpoint / 1e6:,.0f}")
        for each in filled
    ]  # fmt: skip
    head = ("rows", "MB of a worker", "MB of a server", "times ids, rows, states", "MB of a checkpoint")
    return markdown(head, rows, "r")


def bars(filled: list[Filled]) -> list[Bar]:
    """Return the bars, which are for the largest table."""
    last = filled[-1]
    worker, server = f"{last.worker / 1e6:,.0f}", f"{last.share:.2f}"
    return [
        Bar(f"MB of a worker, {last.rows:,} rows", worker, "below 1,000", last.worker < WORKER_BAR),
        Bar("a server's, times ids, rows, states", server, f"at most {SERVER_BAR}", last.share <= SERVER_BAR),
    ]
