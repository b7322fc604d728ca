"""Memory and speed of a worker that holds the layers that it computes now, beside one that holds all, and FSDP2.

    python -m benchmarks.larger --setup                  PyTorch in an environment of its own; once
    python -m benchmarks.larger                          gpt_85m, two workers and a server, some twenty minutes
    python -m benchmarks.larger --model gpt_300m --only layers fsdp --steps 3
    python -m benchmarks.larger --resumed --model gpt_1500m --store-dir /scratch/owned --steps 3 \
        --micro-batches 1 --window 64

Sides are jobs of `mxtrain.fit` over `dist_sync` with adam, one OpenMP thread a process, on random text: `--remat` with
whole workers, the same with `--update servers`, and `--hold layers`. Beside them two processes of PyTorch's FSDP2 over
gloo train the same net with adam, layer by layer, computing activations again (`fsdp_side.py`); also with glibc giving
freed memory back, as ours has it. In a round each has its turn. Of a job are shown the most that the fullest worker and
the server held at once (VmHWM), and its tokens a second over the steps after the first two; at the end all sides of
mxtrain must have the same weights, to the bit. Exit code 1 unless the bars were measured and are met.

`--resumed` is for nets that are larger than this machine: one job of `--hold layers` with `--store-dir`, for so many
steps, and what it left resumed for one more. The bar is a worker's memory. Weights, states and sums of `gpt_1500m`
with adam take some 26 GB of the disk, a checkpoint 18, and two of them are there while one is written.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
from pathlib import Path
from typing import Callable

from benchmarks.harness import environments, parsing, tables
from benchmarks.harness.processes import DEADLINE_SECONDS, ROOT
from benchmarks.harness.rounds import in_turns
from benchmarks.harness.tables import Bar
from benchmarks.larger import jobs
from benchmarks.larger.jobs import Job

OURS = {
    "remat": ["--remat"],
    "servers": ["--remat", "--update", "servers"],
    "layers": ["--update", "servers", "--hold", "layers"],
}
THEIRS = {"fsdp": "PyTorch's FSDP2", "fsdp-giving-back": "PyTorch's FSDP2, MALLOC_MMAP_THRESHOLD_ 512 KB"}
MEMORY_BAR, SPEED_BAR = 0.4, 0.85
LARGEST_WORKER = 2 << 30  # bytes, of a net larger than the machine


def main() -> int:
    options = _options()
    if options.setup:
        environments.set_up(options.envs, [jobs.ENVIRONMENT])
        return 0
    text, bars = (_resumed if options.resumed else _compared)(options)
    lines, is_met = tables.render_bars(bars)
    module = "larger --resumed" if options.resumed else "larger"
    net = f"`{options.model}`, adam, {options.micro_batches} x {options.window} tokens a worker and step"
    tables.write(options.write, module, f"{net}{text}\n\n{lines}")
    return int(not is_met)


def _options() -> argparse.Namespace:
    parser = parsing.parser("larger", __doc__, rounds=3)
    sides = [*OURS, *THEIRS]
    parser.add_argument("--model", default="gpt_85m", help="a GPT by name (%(default)s)")
    parser.add_argument("--steps", type=int, default=8, help="of a job (%(default)s)")
    parser.add_argument("--micro-batches", type=int, default=4, help="of a worker in a step (%(default)s)")
    parser.add_argument("--window", type=int, default=256, help="tokens of a window (%(default)s)")
    parser.add_argument("--only", nargs="+", choices=sides, default=sides, help="these sides")
    parser.add_argument("--store-dir", default="", help="where servers keep what they own; in memory without")
    parser.add_argument("--resumed", action="store_true", help="one job and what goes on from it")
    parser.add_argument(
        "--deadline", type=float, default=4 * DEADLINE_SECONDS, help="seconds of a job (%(default)s)"
    )
    parsing.add_page(parser, ROOT / "docs" / "models.md")
    parsing.add_folder(parser, "--folder", parsing.FOLDER / "larger", "where data and runs are")
    parsing.add_environments(parser)
    options: argparse.Namespace = parser.parse_args()
    return options


def _flags(side: str, options: argparse.Namespace) -> list[str]:
    store = ["--store-dir", options.store_dir] if options.store_dir and side != "remat" else []
    return [*OURS[side], *store]


def _compared(options: argparse.Namespace) -> tuple[str, list[Bar]]:
    """Return the table of all sides, and the bars of held layers."""
    train = jobs.text(
        options.folder, options.window, jobs.NUM_WORKERS * options.micro_batches * options.steps
    )
    turns: dict[str, Callable[[], Job]] = {}
    for side in options.only:
        turns[side] = lambda side=side: _turn(side, train, options)
    found = in_turns(turns, options.rounds, to_and_fro=True)
    if len({job.weights for side in OURS for job in found.get(side, [])}) > 1:
        raise SystemExit("the sides have unlike weights")
    return f", {options.rounds} rounds:\n\n{_table(found)}", _bars(found)


def _turn(side: str, train: Path, options: argparse.Namespace) -> Job:
    if side in THEIRS:
        job = jobs.run_fsdp(options, side != "fsdp")
    else:
        out = options.folder / "run"
        shutil.rmtree(out, ignore_errors=True)
        job = jobs.run(out, train, options, _flags(side, options), options.steps)
    print(f"{side}: {job.in_words()}", flush=True)
    return job


def _resumed(options: argparse.Namespace) -> tuple[str, list[Bar]]:
    """Return the table of a job of held layers and of what went on from it, and its bar."""
    out = options.folder / "run"
    shutil.rmtree(out, ignore_errors=True)
    num_windows = jobs.NUM_WORKERS * options.micro_batches * (options.steps + 1)
    train = jobs.text(options.folder, options.window, num_windows)
    rows, workers = [], []
    for what, steps in (("from its start", options.steps), ("resumed", options.steps + 1)):
        job = jobs.run(out, train, options, _flags("layers", options), steps)
        print(f"{what}: {job.in_words()}", flush=True)
        num_bytes = [f"{each / 1e6:,.0f}" for each in (job.worker, job.server, job.mapped)]
        rows.append((what, *num_bytes, ", ".join(f"{each:.0f}" for each in job.seconds)))
        workers.append(job.worker)
    size = sum(path.stat().st_size for path in out.glob("checkpoints/*/*"))
    shutil.rmtree(out)
    head = ("", "MB of a worker", "MB of the server", "MB that it maps of files", "seconds of steps")
    most, is_met = max(workers), max(workers) < LARGEST_WORKER
    bar = Bar("most MB of a worker", f"{most / 1e6:,.0f}", f"below {LARGEST_WORKER / 1e6:,.0f}", is_met)
    table = tables.markdown(head, rows, "lr")
    return f"; a checkpoint has {size / 1e6:,.0f} MB:\n\n{table}", [bar]


def _table(found: dict[str, list[Job]]) -> str:
    rows = []
    for side, each in found.items():
        worker, server, total, speed = (
            statistics.median(getattr(job, name) for job in each)
            for name in ("worker", "server", "total", "speed")
        )
        name = THEIRS.get(side) or f"`{' '.join(OURS[side])}`"
        megabytes = [f"{value / 1e6:.0f}" if value else "" for value in (worker, server, total)]
        rows.append((name, *megabytes, f"{speed:.1f}"))
    return tables.markdown(
        ("", "MB of a worker", "MB of the server", "MB of all", "tokens a second"), rows, "lr"
    )


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
