"""Savings and cost of `--remat`: whole `mxtrain.fit` commands with and without it, taking turns.

    python -m benchmarks.remat [--model resnet50_v1b] [--batch-size 32] [--image-size 224] [--rounds 2] [--json]

Both sides train on the same made pictures, in one micro-batch a step. Memory is the largest resident size of the
whole process, as the kernel counts it; what the process holds anyway (Python, MXNet, the loader) is in both. A step's
seconds are the median over the run, the first left out. Exits with 1 where memory is not under the bar or the losses
differ by more than 1e-6 of themselves.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BAR = 0.75  # of the memory without
DEADLINE_SECONDS = 900


def make_pictures(folder: Path, count: int, side: int) -> Path:
    """Pack pictures of noise in two brightnesses."""
    import numpy as np

    from mxtrain.core.opencv import cv2

    rng = np.random.default_rng(0)
    for number in range(count):
        place = folder / "images" / ("bright" if number % 2 else "dark")
        place.mkdir(parents=True, exist_ok=True)
        level = 200 if number % 2 else 40
        picture = np.clip(rng.normal(level, 20, (side, side, 3)), 0, 255).astype(np.uint8)
        cv2.imwrite(str(place / f"{number}.jpg"), picture)
    line = [
        sys.executable,
        "-m",
        "tools.im2rec_wrapper",
        "pack",
        str(folder / "images"),
        str(folder / "t.rec"),
    ]
    subprocess.run(line, cwd=ROOT, check=True, timeout=DEADLINE_SECONDS, stdout=subprocess.DEVNULL)
    return folder / "t.rec"


def measure(flags: list[str], out: Path) -> dict[str, Any]:
    """Run one command; return its peak in megabytes, seconds a step, and losses."""
    line = [sys.executable, "-m", "mxtrain.fit", *flags, "--out", str(out)]
    with subprocess.Popen(
        line, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as child:
        said = child.stderr.read() if child.stderr else ""
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1
    if child.returncode:
        raise SystemExit(f"{' '.join(line)}: {said}")
    records = [json.loads(text) for text in (out / "metrics.jsonl").read_text().splitlines()]
    steps = [record for record in records if record["kind"] == "train"]
    return {
        "megabytes": usage.ru_maxrss / 1024,
        "seconds": statistics.median(record["seconds"] for record in steps[1:]),
        "losses": [record["loss"] for record in steps],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Memory and time of --remat, side by side.")
    parser.add_argument("--model", default="resnet50_v1b")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.steps < 2:
        parser.error("--steps: at least 2, as the first is not timed")
    sides: dict[str, list[dict[str, Any]]] = {"without": [], "with": []}
    with tempfile.TemporaryDirectory() as folder:
        rec = make_pictures(Path(folder), options.steps * options.batch_size, options.image_size)
        flags = (
            f"--model {options.model} --batch-size {options.batch_size} --micro-batch {options.batch_size}"
        )
        flags += (
            f" --image-size {options.image_size} --max-steps {options.steps} --log none --log-level warning"
        )
        for number in range(options.rounds):
            for side, measured in sides.items():
                more = ["--remat"] if side == "with" else []
                line = [*flags.split(), *more, "--train", str(rec)]
                measured.append(measure(line, Path(folder) / f"{number}-{len(more)}"))
    (plain, again) = (
        {key: statistics.median(each[key] for each in measured) for key in ("megabytes", "seconds")}
        for measured in sides.values()
    )
    pairs = zip(sides["without"][0]["losses"], sides["with"][0]["losses"])
    apart = max(abs(one - other) / abs(one) for one, other in pairs)
    found = {
        "without": plain,
        "with": again,
        "memory_ratio": again["megabytes"] / plain["megabytes"],
        "time_ratio": again["seconds"] / plain["seconds"],
        "losses_apart": apart,
        "bar": BAR,
    }
    print(json.dumps(found) if options.json else table(options, found))
    return 0 if found["memory_ratio"] <= BAR and apart <= 1e-6 else 1


def table(options: argparse.Namespace, found: dict[str, Any]) -> str:
    rows = "\n".join(
        f"| {name} | {found[key]['megabytes']:.0f} | {found[key]['seconds']:.2f} |"
        for name, key in (("without", "without"), ("with `--remat`", "with"))
    )
    return (
        f"{options.model}, {options.image_size} px, batch {options.batch_size}\n\n"
        f"| | peak MB of the command | seconds a step |\n|---|---:|---:|\n{rows}\n"
        f"| ratio | {found['memory_ratio']:.2f} | {found['time_ratio']:.2f} |\n\n"
        f"losses differ by at most {found['losses_apart']:.1e} of themselves; the bar is {BAR} of the memory"
    )


if __name__ == "__main__":
    raise SystemExit(main())
