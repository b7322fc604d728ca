"""Nets that have learnt: the digits, small as they are and enlarged to 224 pixels, from several seeds.

A trained run is made once and kept: the same command goes on where it was stopped.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks.harness import commands

HELD_OUT = 0.7  # the share that is trained on: the others, 539 digits, tell accuracies
BF16 = ("--amp", "bf16")


def trained(folder: Path, kind: str, seed: int) -> Path:
    """Return the run folder of a net that has learnt: `digits`, or `resnet18` at 224 pixels."""
    return {"digits": small_cnn, "resnet18": resnet18}[kind](folder, seed)


def small_cnn(folder: Path, seed: int) -> Path:
    """Train the demo's net by the demo's recipe, in a few epochs."""
    flags = (*commands.DIGITS, "--epochs", 5, "--devices", "cpu", "--kvstore", "local")
    return _run(folder / f"digits-{seed}", seed, *data(folder), *flags)


def resnet18(folder: Path, seed: int) -> Path:
    """Train a resnet18 on digits of 64 pixels, which is quick, and from there on those of 224, from several seeds."""
    both = ("--model", "resnet18_v1b", "--optimizer", "adamw", "--weight-decay", 0.02, *BF16, *data(folder))
    small = ("--image-size", 64, "--val-resize", 64, "--augment", "pad_crop:pad=8", "--batch-size", 32)
    first = _run(folder / "resnet18-64-0", 0, *both, *small, "--lr", 0.002, "--epochs", 3)
    large = ("--image-size", 224, "--val-resize", 224, "--augment", "pad_crop:pad=24", "--batch-size", 16)
    of_first = ("--pretrained", first, "--lr", 0.0005, "--warmup-epochs", 0, "--max-steps", 40)
    return _run(folder / f"resnet18-224-{seed}", seed, *both, *large, *of_first)


def data(folder: Path) -> tuple[object, ...]:
    """Return the flags of the digits, packed once."""
    place = folder / "digits"
    if not (place / "val.idx").exists():
        commands.pack_digits(place / "images", place, "--split", HELD_OUT)
    return "--train", place / "train.rec", "--val", place / "val.rec"


def _run(out: Path, seed: int, *flags: object) -> Path:
    return commands.fit_once(out, *flags, "--seed", seed)


def barely_trained(folder: Path, model: str) -> Path:
    """Make the run folder of a net at 224 pixels whose speed alone matters."""
    train = data(folder)[:2]
    sizes = ("--image-size", 224, "--val-resize", 224, "--batch-size", 2, "--max-steps", 1)
    return _run(folder / f"barely-{model}", 0, "--model", model, *train, *sizes, "--warmup-epochs", 0)
