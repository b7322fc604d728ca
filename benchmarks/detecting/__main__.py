"""An SSD of a mobilenet beside GluonCV's own training of it: test mAP and pictures a second.

    python -m benchmarks.detecting --data BCCD                                          some hours on two quiet cores
    python -m benchmarks.detecting --data BCCD --bars precision --runs runs/detecting   mAP alone; other work may go on
    python -m benchmarks.detecting --data BCCD --bars speed --epochs 3 --seeds 1        speeds alone

`--data` is a folder as Pascal VOC has it, with trainval.txt and test.txt in ImageSets/Main, such as that of BCCD (364
pictures of blood cells, MIT licence, github.com/Shenggan/BCCD_Dataset). Both sides train `ssd_512_mobilenet1.0` on
pictures of 256 pixels by Adam with one recipe, all cores, with SSD's augmentation, each by its own code; they take
turns. Both begin with the same backbone, a classifier that learns made shapes first. Judged is the net after the last
epoch, by Pascal VOC 2012's average precision at 0.5. `--runs` keeps runs, and those that it holds are not made again.
Exit code 1 unless the bars were measured and are met.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple, Sequence

from benchmarks.detecting import backbone
from benchmarks.harness import commands, parsing, processes
from benchmarks.harness.tables import Bar, markdown, render_bars
from mxtrain.config.components import augmentations
from mxtrain.data.sources.boxes import voc

SIZE, BATCH = 256, 8
OPTIMIZER, RATE, DECAY = "adam", 0.001, 0.0005
OURS, THEIRS = "mxtrain", "GluonCV's script"
SPEED_BAR = 1.3
PRECISION, SPEED = "precision", "speed"


class Trained(NamedTuple):
    """Measured of a run: its mean average precision, and the median pictures a second of its epochs but the first."""

    precision: float
    speed: float


def main() -> int:
    options = _options()
    with contextlib.ExitStack() as stack:
        options.runs = options.runs or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        options.runs.mkdir(parents=True, exist_ok=True)
        found = _measured(options)
    rows = [
        (
            side,
            ", ".join(f"{each.precision:.3f}" for each in runs),
            f"{statistics.median(each.speed for each in runs):.1f}",
        )
        for side, runs in found.items()
    ]
    lines, is_met = render_bars(bars(found, options.bars))
    print(f"\n{markdown(('', 'mAP of each seed', 'pictures a second'), rows, 'lr')}\n\n{lines}")
    return int(not is_met)


def _measured(options: argparse.Namespace) -> dict[str, list[Trained]]:
    """Train both sides with each seed, and return what they came to."""
    found: dict[str, list[Trained]] = {OURS: [], THEIRS: []}
    weights = backbone.weights(options.folder, options.deadline)
    packs = [_packed(options, name) for name in ("trainval", "test")]
    for seed in range(options.seeds):
        for side in (OURS, THEIRS) if seed % 2 == 0 else (THEIRS, OURS):
            trained = _kept(options, packs, weights, side, seed)
            found[side].append(trained)
            print(
                f"{side}, seed {seed}: mAP {trained.precision:.3f}, {trained.speed:.1f} pictures/s",
                flush=True,
            )
    return found


def lower_rate_at(epochs: int) -> list[int]:
    """Return the epochs after which the rate is a tenth: later of all than in GluonCV's recipe of many more epochs."""
    first = max(1, epochs * 16 // 20)
    return [first, max(first + 1, epochs * 19 // 20)]


def bars(found: dict[str, list[Trained]], names: Sequence[str]) -> list[Bar]:
    """Return these bars, by the mean over seeds and the median of the ratios of each."""
    ours, theirs = (statistics.mean(each.precision for each in found[side]) for side in (OURS, THEIRS))
    ratio = statistics.median(one.speed / other.speed for one, other in zip(found[OURS], found[THEIRS]))
    every = {
        PRECISION: Bar("mean mAP, GluonCV's", f"{ours:.3f}, {theirs:.3f}", "no lower", ours >= theirs),
        SPEED: Bar(
            "pictures a second, of GluonCV's", f"{ratio:.2f}", f"at least {SPEED_BAR}", ratio >= SPEED_BAR
        ),
    }
    return [every[name] for name in names]


def _kept(options: argparse.Namespace, packs: list[Path], weights: Path, side: str, seed: int) -> Trained:
    """Return what a run of a side was measured to be, which is made unless --runs holds it."""
    measured = options.runs / f"{'ours' if side == OURS else 'theirs'}-{seed}.json"
    if not measured.exists():
        train = _ours if side == OURS else _theirs
        found = train(options, packs, weights, seed)
        measured.write_text(json.dumps(found._asdict()), encoding="utf-8")
    return Trained(**json.loads(measured.read_text(encoding="utf-8")))


def _packed(options: argparse.Namespace, name: str) -> Path:
    rec: Path = options.folder / f"{name}.rec"
    rec.parent.mkdir(parents=True, exist_ok=True)
    return commands.pack(options.data / "ImageSets" / "Main" / f"{name}.txt", rec, "--from", "voc", "--quiet")


def _ours(options: argparse.Namespace, packs: list[Path], weights: Path, seed: int) -> Trained:
    train, test = packs
    out = options.runs / f"ours-{seed}"
    shutil.rmtree(out, ignore_errors=True)
    commands.fit(
        out,
        *("--task", "detection", "--model", "ssd_512_mobilenet1.0_custom", "--image-size", SIZE),
        *("--train", train, "--pretrained", weights),
        *("--augment", augmentations.OF_BOXES),
        *("--optimizer", OPTIMIZER, "--lr", options.lr, "--weight-decay", DECAY, "--decay-all"),
        *("--schedule", f"multistep:at={'/'.join(map(str, lower_rate_at(options.epochs)))}"),
        *("--batch-size", BATCH, "--micro-batch", BATCH, "--epochs", options.epochs),
        *("--seed", seed, "--sample-steps", 0),
        deadline_seconds=options.deadline,
    )  # fmt: skip
    line = (sys.executable, "-m", "mxtrain.evaluate", out, "--checkpoint", "latest", "--val", test, "--json")
    scores = processes.run(*line, deadline_seconds=options.deadline).answer
    speeds = [each["images_per_second"] for each in commands.records(out, "train")]
    steady = speeds[len(speeds) // options.epochs :] or speeds
    return Trained(float(scores["val_voc_map"]), statistics.median(steady))


def _theirs(options: argparse.Namespace, packs: list[Path], weights: Path, seed: int) -> Trained:
    root = options.folder / "root"
    root.mkdir(parents=True, exist_ok=True)
    link = root / "VOC2007"
    link.unlink(missing_ok=True)
    link.symlink_to(options.data)
    classes = voc.read_voc(options.data / "ImageSets" / "Main" / "trainval.txt").class_names
    job = options.runs / f"theirs-{seed}-job.json"
    settings = {
        **{
            "seed": seed,
            "classes": list(classes or ()),
            "backbone": str(weights),
            "backbone_classes": backbone.NUM_CLASSES,
        },
        **{"root": str(root), "train": "trainval", "val": "test"},
        **{"size": SIZE, "batch_size": BATCH, "num_workers": 2, "deadline": options.deadline},
        **{"optimizer": OPTIMIZER, "lr": options.lr, "weight_decay": DECAY},
        **{"epochs": options.epochs, "lower_rate_at": lower_rate_at(options.epochs)},
    }
    job.write_text(json.dumps(settings), encoding="utf-8")
    line = (sys.executable, "-m", "benchmarks.detecting.gluoncv_side", job)
    answer = processes.run(*line, deadline_seconds=options.deadline).answer
    return Trained(answer["map"], statistics.median(answer["speeds"][1:] or answer["speeds"]))


def _options() -> argparse.Namespace:
    parser = parsing.parser("detecting", __doc__)
    parsing.add_folder(parser, "--data", None, "as Pascal VOC has it")
    parser.add_argument("--bars", nargs="+", choices=(PRECISION, SPEED), default=(PRECISION, SPEED))
    parser.add_argument("--epochs", type=int, default=20, help="(%(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--lr", type=float, default=RATE, help="(%(default)s)")
    parser.add_argument("--deadline", type=float, default=3000, help="seconds of a run (%(default)s)")
    parsing.add_folder(parser, "--folder", parsing.FOLDER / "detecting", "where packs and the backbone are")
    parsing.add_folder(
        parser, "--runs", None, "keep the runs there, and do not make those again that it holds"
    )
    options: argparse.Namespace = parser.parse_args()
    if options.data is None:
        parser.error("--data is missing")
    return options


if __name__ == "__main__":
    raise SystemExit(main())
