"""Does it learn? The demo's recipe on handwritten digits, several seeds, each a command of its own.

    python -m benchmarks.learn [--seeds 5] [--json]

Every seed draws its own split, its own initial weights and its own order. Exit code 1 when the mean accuracy on
held-out digits is below the bar.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BAR = 0.98
SECONDS_PER_COMMAND = 600


def run(*arguments: object) -> None:
    line = [sys.executable, *map(str, arguments)]
    subprocess.run(line, cwd=ROOT, check=True, timeout=SECONDS_PER_COMMAND, stdout=subprocess.DEVNULL)


def accuracy_of(seed: int, images: Path, folder: Path) -> float:
    """Pack, train and read the last evaluation."""
    run("-m", "tools.im2rec_wrapper", "pack", images, folder / "rec", "--split", "0.8", "--seed", seed)
    data = ["--train", folder / "rec" / "train.rec", "--val", folder / "rec" / "val.rec"]
    recipe = [
        "--config",
        ROOT / "examples" / "digits.yaml",
        "--seed",
        seed,
        "--log",
        "none",
        "--log-level",
        "warning",
    ]
    run("-m", "mxtrain.fit", *recipe, *data, "--out", folder / "run")
    records = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    return float([record["val_accuracy"] for record in records if record["kind"] == "eval"][-1])


def main() -> int:
    parser = argparse.ArgumentParser(description="Train the demo's recipe with several seeds.")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    accuracies, seconds = [], []
    with tempfile.TemporaryDirectory() as folder:
        images = Path(folder) / "images"
        run("examples/digits.py", images)
        for seed in range(options.seeds):
            started = time.monotonic()
            accuracies.append(accuracy_of(seed, images, Path(folder) / str(seed)))
            seconds.append(time.monotonic() - started)
            if not options.json:
                print(f"seed {seed}: accuracy {accuracies[-1]:.4f} in {seconds[-1]:.0f} s", flush=True)
    mean = statistics.mean(accuracies)
    if options.json:
        print(json.dumps({"accuracies": accuracies, "mean": mean, "seconds": seconds, "bar": BAR}))
    else:
        print(
            f"mean accuracy on held-out digits {mean:.4f} (bar {BAR}), median {statistics.median(seconds):.0f} s a seed"
        )
    return 0 if mean >= BAR else 1


if __name__ == "__main__":
    raise SystemExit(main())
