"""A language model of the standard library's own sources, beside PyTorch's same net.

    python -m benchmarks.learn --setup    an environment with PyTorch; once
    python -m benchmarks.learn.lm         some minutes on two quiet cores

Both begin with the same weights and see the same windows in the same order, with several seeds. Their bits per byte of
files that were held out have to be as near as mxtrain's are to each other. Exit code 1 when they are not.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Iterator

import numpy as np

from benchmarks import curves
from benchmarks.curves import Panel
from benchmarks.harness import commands, environments, parsing, processes
from benchmarks.learn.sides import OURS, TORCH, train_with_torch
from mxtrain.config.flags.arguments import png_path

TOKENIZER = "bpe:vocabulary=2048"
RECIPE = (
    *("--task", "lm", "--model", "gpt:layers=4,heads=4,width=128", "--window", 128, "--max-steps", 250),
    *("--batch-size", 16, "--micro-batch", 16, "--optimizer", "adamw", "--lr", 0.003),
    *("--weight-decay", 0.1, "--warmup-epochs", 0.02),
)
SMOOTH = 10  # steps


def main() -> int:
    options = _parse()
    torch = environments.pytorch(options.envs, "learn", "learn")
    with contextlib.ExitStack() as stack:
        folder = options.runs or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        data = _packed(folder)
        found: dict[str, list[float]] = {OURS: [], TORCH: []}
        for seed in range(options.seeds):
            for side, out in _trained(data, folder, seed, torch):
                found[side].append(commands.last_score(out, "val_bits_per_byte"))
                print(f"seed {seed}, {side}: {found[side][-1]:.4f}", file=sys.stderr, flush=True)
        curves.draw(options.png, [_panel(folder, seed) for seed in range(options.seeds)])
    apart, spread = abs(np.mean(found[OURS]) - np.mean(found[TORCH])), np.ptp(found[OURS])
    for side, values in found.items():
        print(f"{side}: {np.mean(values):.4f} bits per byte ({', '.join(f'{each:.4f}' for each in values)})")
    print(f"apart by {apart:.4f}, where seeds are by {spread:.4f}; {options.png}: the curves")
    return 0 if apart <= spread else 1


def _panel(folder: Path, seed: int) -> Panel:
    found = {side: curves.losses(folder / f"lm-{seed}-{side}") for side in (OURS, TORCH)}
    return Panel(f"seed {seed}", found, smooth=SMOOTH)


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


def _trained(data: Path, folder: Path, seed: int, torch: Path) -> Iterator[tuple[str, Path]]:
    """Yield each side and the folder of its run, after it has ended; runs that are there are kept."""
    ours, theirs = (folder / f"lm-{seed}-{side}" for side in (OURS, TORCH))
    sets = ("--train", data / "train.rec", "--val", data / "val.rec")
    commands.fit_once(ours, *RECIPE, *sets, "--seed", seed)
    yield OURS, ours
    if commands.is_missing(theirs):
        train_with_torch(torch, ours, theirs)
        commands.mark_ended(theirs)
    yield TORCH, theirs


def _parse() -> argparse.Namespace:
    parser = parsing.parser("learn.lm", __doc__)
    parsing.add_environments(parser, has_setup=False)
    parsing.add_folder(
        parser, "--runs", None, "keep the runs there, and do not make those again that it holds"
    )
    parser.add_argument("--seeds", type=int, default=3, help="how many (default: 3)")
    parser.add_argument("--png", type=png_path, default=Path("runs/benchmarks/lm.png"))
    options = parser.parse_args()
    options.png = options.png.resolve()
    return options


if __name__ == "__main__":
    raise SystemExit(main())
