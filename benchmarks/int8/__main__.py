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
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks import exporting
from benchmarks.harness import parsing, processes
from benchmarks.int8 import tables
from mxtrain.core.system import kernels

SEEDS, BATCHES = ("0", "1", "2"), ("1", "32")
NETS = ("digits", "resnet18", "resnet50_v1b")
DEADLINE_SECONDS = 900
NO_VNNI = "AVX2"  # the kernels of a CPU without AVX-512
ENTRIES = {
    "accuracy": [("accuracy", kind, seed) for kind in NETS[:2] for seed in SEEDS],
    "speed": [("speed", kind, batch) for kind in NETS for batch in BATCHES],
    "portable": [("portable", "resnet18", batch) for batch in BATCHES],
    "families": [("family", name) for name in exporting.NETS],
}
PAGE = processes.ROOT / "docs" / "int8.md"
BEGIN, END = "<!-- python -m benchmarks.int8 --write: from here -->", "<!-- to here -->"


def main() -> int:
    """Measure what is not known yet, and print or write the tables."""
    parser = parsing.parser("int8", __doc__)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/int8.md")
    parser.add_argument(
        "--folder", type=Path, default=Path("runs/int8"), help="trained nets, and what is known"
    )
    parser.add_argument("--only", default=",".join(ENTRIES), help="these tables; none to show what is known")
    parser.add_argument("--again", action="store_true", help="measure what is known too")
    parser.add_argument("--one", help="measure this entry in this process, and print it as JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.folder, *options.one.split(":"))))
        return 0
    options.folder.mkdir(parents=True, exist_ok=True)
    results = options.folder / "results.jsonl"
    for entry in (entry for only in options.only.split(",") if only in ENTRIES for entry in ENTRIES[only]):
        name = ":".join(entry)
        if options.again or name not in read(results):
            found = {"entry": name, **in_a_process(options.folder, name)}
            print(json.dumps(found), file=sys.stderr, flush=True)
            with results.open("a") as file:
                file.write(json.dumps(found) + "\n")
    known = read(results)
    text = tables.render(known)
    if options.write:
        before, rest = PAGE.read_text(encoding="utf-8").split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{text}{END}{rest.split(END, 1)[1]}", encoding="utf-8")
    else:
        print(text, end="")
    problems = tables.problems(known)
    print(*problems, sep="\n", file=sys.stderr)
    return int(bool(problems))


def read(path: Path) -> dict[str, Any]:
    """Return what is known, by entry; the last line of each counts."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {each["entry"]: each for each in map(json.loads, lines)}


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


def in_a_process(folder: Path, name: str) -> dict[str, Any]:
    """Return what a process of its own finds: its memory is free afterwards, and nothing can hang."""
    line = [sys.executable, "-m", "benchmarks.int8", "--folder", str(folder.resolve()), "--one", name]
    environ = {**os.environ, **({kernels.MAX_CPU_ISA: NO_VNNI} if name.startswith("portable") else {})}
    try:
        ended = subprocess.run(
            line, cwd=processes.ROOT, env=environ, capture_output=True, text=True, timeout=DEADLINE_SECONDS
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"not done in {DEADLINE_SECONDS} s"}
    if ended.returncode:
        return {"failed": (ended.stderr.strip().splitlines() or ["no reason"])[-1]}
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    raise SystemExit(main())
