"""An SSD of a mobilenet beside GluonCV's own training of it: test mAP and pictures a second.

    python -m benchmarks.detecting --data BCCD          an hour on two quiet cores
    python -m benchmarks.detecting --data BCCD --epochs 3 --seeds 1      speeds alone

`--data` is a folder as Pascal VOC has it, with trainval.txt and test.txt in ImageSets/Main, such as that of BCCD (364
pictures of blood cells, MIT licence, github.com/Shenggan/BCCD_Dataset). Both sides train `ssd_512_mobilenet1.0` on
pictures of 256 pixels from random weights, by SGD with one recipe, all cores, with SSD's augmentation, each by its
own code; they take turns. Judged is the net after the last epoch, by Pascal VOC 2012's average precision at 0.5. Exit
code 1 unless both bars were measured and are met.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import commands, parsing, processes
from benchmarks.harness.tables import Bar, markdown, render_bars
from mxtrain.data.sources.boxes import voc

SIZE, BATCH, RATE = 256, 16, 0.004
OURS, THEIRS = "mxtrain", "GluonCV's script"
SPEED_BAR = 1.3


class Trained(NamedTuple):
    """Measured of a run: its mean average precision, and the median pictures a second of its epochs but the first."""

    precision: float
    speed: float


def main() -> int:
    options = _options()
    found: dict[str, list[Trained]] = {OURS: [], THEIRS: []}
    packs = [_packed(options, name) for name in ("trainval", "test")]
    for seed in range(options.seeds):
        for side in (OURS, THEIRS) if seed % 2 == 0 else (THEIRS, OURS):
            trained = _ours(options, packs, seed) if side == OURS else _theirs(options, seed)
            found[side].append(trained)
            print(
                f"{side}, seed {seed}: mAP {trained.precision:.3f}, {trained.speed:.1f} pictures/s",
                flush=True,
            )
    rows = [
        (
            side,
            ", ".join(f"{each.precision:.3f}" for each in runs),
            f"{statistics.median(each.speed for each in runs):.1f}",
        )
        for side, runs in found.items()
    ]
    lines, is_met = render_bars(bars(found))
    print(f"\n{markdown(('', 'mAP of each seed', 'pictures a second'), rows, 'lr')}\n\n{lines}")
    return int(not is_met)


def lower_rate_at(epochs: int) -> list[int]:
    """Return the epochs after which the rate is a tenth, as GluonCV's recipe has it: 160 and 200 of 240."""
    return [max(1, epochs * 160 // 240), max(2, epochs * 200 // 240)]


def bars(found: dict[str, list[Trained]]) -> list[Bar]:
    """Return the bars, by the mean over seeds and the median of the ratios of each."""
    ours, theirs = (statistics.mean(each.precision for each in found[side]) for side in (OURS, THEIRS))
    ratio = statistics.median(one.speed / other.speed for one, other in zip(found[OURS], found[THEIRS]))
    return [
        Bar("mean mAP, GluonCV's", f"{ours:.3f}, {theirs:.3f}", "no lower", ours >= theirs),
        Bar("pictures a second, of GluonCV's", f"{ratio:.2f}", f"at least {SPEED_BAR}", ratio >= SPEED_BAR),
    ]


def _packed(options: argparse.Namespace, name: str) -> Path:
    rec: Path = options.folder / f"{name}.rec"
    rec.parent.mkdir(parents=True, exist_ok=True)
    return commands.pack(options.data / "ImageSets" / "Main" / f"{name}.txt", rec, "--from", "voc", "--quiet")


def _ours(options: argparse.Namespace, packs: list[Path], seed: int) -> Trained:
    out = options.folder / "run"
    shutil.rmtree(out, ignore_errors=True)
    commands.fit(
        out,
        *("--task", "detection", "--model", "ssd_512_mobilenet1.0_custom", "--image-size", SIZE),
        *("--train", packs[0], "--val", packs[1], "--augment", "colour_jitter:hue=0.1+expand+iou_crop+flip"),
        *("--optimizer", "sgd", "--momentum", 0.9, "--lr", RATE, "--weight-decay", 0.0005),
        *("--schedule", f"multistep:at={'/'.join(map(str, lower_rate_at(options.epochs)))}"),
        *("--batch-size", BATCH, "--micro-batch", BATCH, "--epochs", options.epochs),
        *("--seed", seed, "--sample-steps", 0, "--keep-best", 0),
    )  # fmt: skip
    last = commands.records(out, "eval")[-1]
    speeds = [each["images_per_second"] for each in commands.records(out, "train")]
    steady = speeds[len(speeds) // options.epochs :] or speeds
    return Trained(float(last["val_voc_map"]), statistics.median(steady))


def _theirs(options: argparse.Namespace, seed: int) -> Trained:
    root = options.folder / "root"
    root.mkdir(parents=True, exist_ok=True)
    link = root / "VOC2007"
    link.unlink(missing_ok=True)
    link.symlink_to(options.data)
    classes = voc.read_voc(options.data / "ImageSets" / "Main" / "trainval.txt").class_names
    job = options.folder / "job.json"
    settings = {
        **{
            "seed": seed,
            "classes": list(classes or ()),
            "root": str(root),
            "train": "trainval",
            "val": "test",
        },
        **{"size": SIZE, "batch_size": BATCH, "num_workers": 2, "lr": RATE, "epochs": options.epochs},
        "lower_rate_at": lower_rate_at(options.epochs),
    }
    job.write_text(json.dumps(settings), encoding="utf-8")
    line = (sys.executable, "-m", "benchmarks.detecting.gluoncv_side", job)
    answer = processes.run(*line, deadline_seconds=options.deadline).answer
    return Trained(answer["map"], statistics.median(answer["speeds"][1:] or answer["speeds"]))


def _options() -> argparse.Namespace:
    parser = parsing.parser("detecting", __doc__)
    parsing.add_folder(parser, "--data", None, "as Pascal VOC has it")
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--deadline", type=float, default=3000, help="seconds of a run (%(default)s)")
    parsing.add_folder(parser, "--folder", parsing.FOLDER / "detecting", "where packs and runs are")
    options: argparse.Namespace = parser.parse_args()
    if options.data is None:
        parser.error("--data is missing")
    return options


if __name__ == "__main__":
    raise SystemExit(main())
