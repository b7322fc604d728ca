"""A language model of the standard library's own sources, beside PyTorch's same net.

    python -m benchmarks.learn --setup    an environment with PyTorch; once
    python -m benchmarks.learn.lm         some minutes on two quiet cores

Both begin with the same weights and see the same windows in the same order, with several seeds. Their bits per byte of
files that were held out have to be as near as mxtrain's are to each other. Exit code 1 when they are not.
"""

from __future__ import annotations

import contextlib
import json
import sys
import sysconfig
import tempfile
from pathlib import Path

import numpy as np

from benchmarks import curves
from benchmarks.harness import environments, processes
from benchmarks.learn import sides
from benchmarks.learn.sides import OURS, TORCH, Recipe

NAME = "lm"
TOKENIZER = "bpe:vocabulary=2048"
RECIPE = (
    *("--task", "lm", "--model", "gpt:layers=4,heads=4,width=128", "--window", 128, "--max-steps", 250),
    *("--batch-size", 16, "--micro-batch", 16, "--optimizer", "adamw", "--lr", 0.003),
    *("--weight-decay", 0.1, "--warmup-epochs", 0.02),
)


def main() -> int:
    options = sides.parse(NAME, __doc__)
    torch = environments.pytorch(options.envs, "learn", "learn")
    with contextlib.ExitStack() as stack:
        folder = options.runs or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        data = _packed(folder)
        sets = ("--train", data / "train.rec", "--val", data / "val.rec")
        recipe = Recipe(NAME, (*RECIPE, *sets), "val_bits_per_byte")
        found = sides.train_over_seeds(recipe, options.seeds, folder, torch)
        curves.draw(options.png, sides.panels_of(recipe, options.seeds, folder))
    apart, spread = abs(np.mean(found[OURS]) - np.mean(found[TORCH])), np.ptp(found[OURS])
    for side, values in found.items():
        print(f"{side}: {np.mean(values):.4f} bits per byte ({', '.join(f'{each:.4f}' for each in values)})")
    print(f"apart by {apart:.4f}, where seeds are by {spread:.4f}; {options.png}: the curves")
    return 0 if apart <= spread else 1


def _packed(folder: Path) -> Path:
    """Pack the standard library, without its tests; return the folder of train.rec and val.rec."""
    data = folder / "data"
    if not (data / "val.rec").exists():
        folder.mkdir(parents=True, exist_ok=True)
        texts = folder / "stdlib.jsonl"
        root = Path(sysconfig.get_paths()["stdlib"])
        skipped = {"test", "tests", "site-packages", "idlelib", "lib2to3", "__pycache__"}
        paths = sorted(path for path in root.rglob("*.py") if not skipped & {*path.relative_to(root).parts})
        with texts.open("w", encoding="utf-8") as file:
            for path in paths:
                text = path.read_text(encoding="utf-8", errors="replace")
                file.write(json.dumps({"text": text}) + "\n")
        packer = (sys.executable, "-m", "tools.im2rec_wrapper", "pack", "--skip-bad")
        processes.run(*packer, texts, data, "--split", 0.95, "--tokenizer", TOKENIZER)
    return data


if __name__ == "__main__":
    raise SystemExit(main())
