"""Costs and gains of int8 on this CPU: accuracies over seeds, milliseconds an image, and families of nets.

    python -m benchmarks.int8 [--write] [--folder runs/int8] [--only accuracy,speed,families,portable] [--again]

Nets are trained first, in minutes. Each entry is measured in a process of its own with a deadline and kept in the
folder's results.jsonl: the same command goes on after an interruption. In a row of speeds all sides take turns in one
process; what is shown are medians over rounds. onnxruntime makes its int8 by its own tool from our ONNX and the same
samples. `--write` puts the tables into docs/int8.md. Exit code 1 where int8 loses more accuracy than seeds differ by,
or gains less than three times float32's speed on resnet18.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from benchmarks import exporting
from benchmarks.harness import kept, parsing, processes
from benchmarks.harness.tables import write
from benchmarks.int8 import tables
from mxtrain.core.system import kernels

SEEDS, BATCHES = ("0", "1", "2"), ("1", "32")
NETS = ("digits", "resnet18", "resnet50_v1b")
NO_VNNI = "AVX2"  # the kernels of a CPU without AVX-512
ENTRIES = {
    "accuracy": [("accuracy", kind, seed) for kind in NETS[:2] for seed in SEEDS],
    "speed": [("speed", kind, batch) for kind in NETS for batch in BATCHES],
    "portable": [("portable", "resnet18", batch) for batch in BATCHES],
    "families": [("family", name) for name in exporting.NETS],
}
PAGE = processes.ROOT / "docs" / "int8.md"


def main() -> int:
    """Measure what is not known yet, and print or write the tables."""
    parser = parsing.parser("int8", __doc__)
    parsing.add_page(parser, PAGE)
    parsing.add_folder(parser, "--folder", Path("runs/int8"), "trained nets, and what is known")
    parser.add_argument("--only", default=",".join(ENTRIES), help="these tables; none to show what is known")
    parser.add_argument("--again", action="store_true", help="measure what is known too")
    parser.add_argument("--one", help="measure this entry in this process, and print it as JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.folder, *options.one.split(":"))))
        return 0
    results = options.folder / "results.jsonl"
    for entry in (entry for only in options.only.split(",") if only in ENTRIES for entry in ENTRIES[only]):
        name = ":".join(entry)
        if options.again or name not in kept.read(results, "entry"):
            line = (sys.executable, "-m", "benchmarks.int8", "--folder", options.folder, "--one", name)
            environment = {kernels.MAX_CPU_ISA: NO_VNNI} if name.startswith("portable") else {}
            found = {"entry": name, **kept.in_a_process(*line, **environment)}
            print(json.dumps(found), file=sys.stderr, flush=True)
            kept.add(results, found)
    known = kept.read(results, "entry")
    write(options.write, "int8", tables.render(known))
    problems = tables.problems(known)
    print(*problems, sep="\n", file=sys.stderr)
    return int(bool(problems))


def one(folder: Path, kind: str, *words: str) -> dict[str, Any]:
    """Measure one entry."""
    from benchmarks.int8 import measured

    measure: Any = {
        "accuracy": measured.accuracy,
        "speed": measured.speed,
        "portable": measured.speed,
        "family": measured.family,
    }[kind]
    return {**measure(folder, *words), "kernels": kernels.onednn()}


if __name__ == "__main__":
    raise SystemExit(main())
