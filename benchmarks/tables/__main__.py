"""Tables that no worker holds: memory, what a checkpoint takes, and speed beside PyTorch and TensorFlow.

    python -m benchmarks.tables --setup       environments with PyTorch and TensorFlow; once
    python -m benchmarks.tables               all parts: half an hour, 10 GB of memory and of the disk
    python -m benchmarks.tables --only speed

- `memory`: a job of two workers and two servers brings rows of 16 with `adagrad_row` to life, up to `--rows`, and
  writes a checkpoint of them. Shown is the most that the fullest worker and server held at once (VmHWM).
- `increments`: a checkpoint after 1% of the rows were touched, beside a whole one.
- `speed`: a DeepFM of width 16 on clicks as Criteo's, 26 ids and 13 numbers, 2,048 a worker and step, adagrad for rows
  and adam for all else. In one process beside PyTorch's sparse gradients; with two workers and two servers, synchronous
  and exact, beside two ranks of PyTorch with the dense table that gloo needs, and beside TensorFlow's
  ParameterServerStrategy, which is asynchronous. PyTorch and TensorFlow have their batches in memory, mxtrain reads
  them as `fit` does. A loss stands beside each speed.

- `auc`, with `--ratings u.data` of MovieLens-100K: three seeds of a DeepFM beside PyTorch's with a dense table, from
  the same weights by the same batches.

Exit code 1 unless the bars were measured and are met.
"""

from __future__ import annotations

import argparse

from benchmarks.harness import environments, parsing, tables
from benchmarks.harness.processes import ROOT
from benchmarks.harness.tables import Bar
from benchmarks.tables import auc, increments, memory, speed

PARTS = ("memory", "increments", "speed", "auc")


def main() -> int:
    options = _options()
    if options.setup:
        environments.set_up(options.envs, speed.ENVIRONMENTS)
        return 0
    options.folder.mkdir(parents=True, exist_ok=True)
    texts: list[str] = []
    bars: list[Bar] = []
    if "memory" in options.only:
        sizes = [10**power for power in range(5, len(str(options.rows)))]
        filled = [memory.fill(options.folder, each, options.deadline) for each in sizes]
        texts.append(memory.table(filled))
        bars += memory.bars(filled)
    if "increments" in options.only:
        found = increments.measured(options.folder / "kept", options.kept_rows, options.rounds)
        bars += increments.bars(found)
    if "speed" in options.only:
        ran = speed.measured(options)
        texts.append(speed.table(ran))
        bars += speed.bars(ran)
    if "auc" in options.only and options.ratings:
        bars += auc.bars(auc.measured(options))
    lines, is_met = tables.render_bars(bars)
    tables.write(options.write, "tables", "\n\n".join([*texts, lines]))
    return int(not is_met)


def _options() -> argparse.Namespace:
    parser = parsing.parser("tables", __doc__, rounds=3)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="these parts")
    parser.add_argument("--rows", type=int, default=10**8, help="of the largest table (%(default)s)")
    parser.add_argument("--kept-rows", type=int, default=10**7, help="of the one that is kept (%(default)s)")
    parser.add_argument("--ids", type=int, default=10**6, help="that clicks have (%(default)s)")
    parsing.add_folder(parser, "--ratings", None, "a file of ratings, as MovieLens's u.data: for `auc`")
    parser.add_argument("--steps", type=int, default=60, help="of a run (%(default)s)")
    parser.add_argument("--deadline", type=float, default=1500, help="seconds of a job (%(default)s)")
    parsing.add_page(parser, ROOT / "docs" / "tables.md")
    parsing.add_folder(parser, "--folder", parsing.FOLDER / "tables", "where data and runs are")
    parsing.add_environments(parser)
    options: argparse.Namespace = parser.parse_args()
    return options


if __name__ == "__main__":
    raise SystemExit(main())
