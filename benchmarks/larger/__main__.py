"""Memory and speed of a worker that holds the layers that it computes now, beside one that holds all.

    python -m benchmarks.larger                          gpt_85m, two workers and a server, some ten minutes
    python -m benchmarks.larger --model gpt_300m --only layers --steps 3

Sides are jobs of `mxtrain.fit` over `dist_sync` with adam, one OpenMP thread a process, on random text: `--remat` with
whole workers, the same with `--update servers`, and `--hold layers`. In a round each has its turn. Of a job are shown
the most that the fullest worker and the server held at once (VmHWM), and its tokens a second over the steps after
the first two; at the end all sides must have the same weights, to the bit. Exit code 1 unless the bars were measured
and are met.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple, Sequence

from benchmarks.harness import commands, parsing, tables
from benchmarks.harness.processes import DEADLINE_SECONDS, ROOT
from benchmarks.harness.rounds import in_turns
from benchmarks.harness.tables import Bar

WINDOW, MICRO_BATCH, NUM_WORKERS, WARM_STEPS = 256, 1, 2, 2
SIDES = {
    "remat": ["--remat"],
    "servers": ["--remat", "--update", "servers"],
    "layers": ["--update", "servers", "--hold", "layers"],
}
MEMORY_BAR, SPEED_BAR = 0.4, 0.85
POLL_SECONDS = 0.1


class Job(NamedTuple):
    """Measured of a job: bytes of its fullest worker and server, tokens a second, and a checksum of its weights."""

    worker: int
    server: int
    speed: float
    weights: str


def main() -> int:
    options = _options()
    folder = options.folder
    train = _text(folder, NUM_WORKERS * options.micro_batches * MICRO_BATCH * options.steps)
    turns = {side: lambda side=side: _job(folder / "run", train, options, side) for side in options.only}
    found = in_turns(turns, options.rounds, to_and_fro=True)
    if len({job.weights for jobs in found.values() for job in jobs}) > 1:
        raise SystemExit("the sides have unlike weights")
    bars, is_met = tables.render_bars(_bars(found))
    job = f"`{options.model}`, adam, {options.micro_batches} windows of {WINDOW} a worker and step"
    tables.write(options.write, "larger", f"{job}, {options.rounds} rounds:\n\n{_table(found)}\n\n{bars}")
    return int(not is_met)


def _options() -> argparse.Namespace:
    parser = parsing.parser("larger", __doc__, rounds=3)
    parser.add_argument("--model", default="gpt_85m", help="a GPT by name (%(default)s)")
    parser.add_argument("--steps", type=int, default=8, help="of a job (%(default)s)")
    parser.add_argument("--micro-batches", type=int, default=4, help="of a worker in a step (%(default)s)")
    parser.add_argument("--only", nargs="+", choices=SIDES, default=list(SIDES), help="these sides")
    parser.add_argument("--store-dir", default="", help="where servers keep what they own; in memory without")
    parsing.add_page(parser, ROOT / "docs" / "models.md")
    parsing.add_folder(parser, "--folder", parsing.FOLDER / "larger", "where data and runs are")
    options: argparse.Namespace = parser.parse_args()
    return options


def _text(folder: Path, num_windows: int) -> Path:
    """Return a .rec of random letters, enough for so many windows."""
    folder.mkdir(parents=True, exist_ok=True)
    letters = random.Random(0)
    document = ["".join(letters.choices("abcdefgh ", k=WINDOW)) for _ in range(num_windows + 1)]
    (folder / "text.txt").write_text("\n\n".join(document), encoding="utf-8")
    shutil.rmtree(folder / "rec", ignore_errors=True)
    commands.pack(folder / "text.txt", folder / "rec", "--tokenizer", "bytes", "--quiet")
    return folder / "rec" / "data.rec"


def _job(out: Path, train: Path, options: argparse.Namespace, side: str) -> Job:
    """Run a job of a side; return what it took."""
    shutil.rmtree(out, ignore_errors=True)
    batch = NUM_WORKERS * options.micro_batches * MICRO_BATCH
    store = ["--store-dir", options.store_dir] if options.store_dir and side != "remat" else []
    flags = [
        *("--task", "lm", "--model", options.model, "--window", str(WINDOW), "--train", str(train)),
        *("--batch-size", str(batch), "--micro-batch", str(MICRO_BATCH), "--max-steps", str(options.steps)),
        *("--optimizer", "adam", "--lr", "1e-4", "--threads", "1", "--sample-steps", "0", "--log", "none"),
        *("--kvstore", "dist_sync", "--num-workers", str(NUM_WORKERS), "--out", str(out)),
        *("--stall-timeout", "1000", "--start-timeout", "300", *SIDES[side], *store),
    ]
    largest = _largest(flags)
    seconds = [record["seconds"] for record in commands.records(out, "train")[WARM_STEPS:]]
    speed = batch * WINDOW / statistics.median(seconds) if seconds else 0.0
    (weights,) = out.glob(f"checkpoints/*{options.steps}/weights.params")
    with weights.open("rb") as file:
        checksum = hashlib.sha256()
        for piece in iter(lambda: file.read(1 << 24), b""):
            checksum.update(piece)
    job = Job(largest["worker"], largest["server"], speed, checksum.hexdigest())
    print(
        f"{side}: worker {job.worker / 1e6:.0f} MB, server {job.server / 1e6:.0f} MB, {speed:.1f} tokens/s",
        flush=True,
    )
    return job


def _largest(flags: Sequence[str]) -> dict[str, int]:
    """Run a job; return by role the most bytes that a process of it held."""
    largest = {"worker": 0, "server": 0}
    deadline = time.monotonic() + 4 * DEADLINE_SECONDS
    line = [sys.executable, "-m", "mxtrain.fit", *flags]
    with subprocess.Popen(
        line, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as job:
        try:
            while job.poll() is None and time.monotonic() < deadline:
                for role, num_bytes in _processes(job.pid):
                    largest[role] = max(largest.get(role, 0), num_bytes)
                time.sleep(POLL_SECONDS)
        finally:
            job.terminate()
        assert job.stderr is not None
        errors = job.stderr.read()
    if job.returncode:
        raise SystemExit(f"{' '.join(line)}:\n{errors}")
    return largest


def _processes(launcher: int) -> list[tuple[str, int]]:
    """Return the roles of a launcher's processes, with the most bytes that each has held."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            status = dict(line.split(":", 1) for line in (path / "status").read_text().splitlines())
            if int(status["PPid"]) == launcher:
                environment = (path / "environ").read_bytes().split(b"\0")
                roles = [each[10:] for each in environment if each.startswith(b"DMLC_ROLE=")]
                found += [(os.fsdecode(role), 1024 * int(status["VmHWM"].split()[0])) for role in roles]
    return found


def _table(found: dict[str, list[Job]]) -> str:
    rows = []
    for side, jobs in found.items():
        worker, server, speed = (statistics.median(each) for each in list(zip(*jobs))[:3])
        rows.append((" ".join(SIDES[side]), f"{worker / 1e6:.0f}", f"{server / 1e6:.0f}", f"{speed:.1f}"))
    return tables.markdown(("flags", "MB of a worker", "MB of the server", "tokens a second"), rows, "lr")


def _bars(found: dict[str, list[Job]]) -> list[Bar]:
    """Return the bars of held layers against whole workers, by the medians of rounds."""
    what = "peak of a worker, of --remat's", "tokens a second, of --remat's"
    if not {"remat", "layers"} <= found.keys():
        return [Bar(what[0], None, str(MEMORY_BAR)), Bar(what[1], None, str(SPEED_BAR))]
    pairs = list(zip(found["layers"], found["remat"]))
    memory = statistics.median(layers.worker / whole.worker for layers, whole in pairs)
    speed = statistics.median(layers.speed / whole.speed for layers, whole in pairs)
    return [
        Bar(what[0], f"{memory:.2f}", f"at most {MEMORY_BAR}", memory <= MEMORY_BAR),
        Bar(what[1], f"{speed:.2f}", f"at least {SPEED_BAR}", speed >= SPEED_BAR),
    ]


if __name__ == "__main__":
    raise SystemExit(main())
