"""The backbone that both sides begin with: a mobilenet that has learnt to tell discs, squares and triangles apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator

import numpy as np

from benchmarks.harness import commands
from examples import boxed_shapes

NUM_TRAIN, NUM_VAL = 2400, 300
NUM_CLASSES = len(boxed_shapes.SHAPES)
RECIPE = (
    *("--model", "mobilenet1.0", "--image-size", boxed_shapes.SIZE, "--augment", "resized_crop:scale_min=0.8+flip"),
    *("--optimizer", "adamw", "--lr", 0.002, "--weight-decay", 0.02, "--schedule", "cosine"),
    *("--warmup-epochs", 1, "--epochs", 6, "--batch-size", 32, "--micro-batch", 32, "--sample-steps", 0),
)  # fmt: skip


def weights(folder: Path, deadline_seconds: float) -> Path:
    """Return the file of the classifier's weights, as Gluon writes them; it is trained once."""
    train, val = (
        boxed_shapes.write_records(folder / f"{name}.rec", _samples(count, seed), boxed_shapes.SHAPES)
        for seed, (name, count) in enumerate((("one-train", NUM_TRAIN), ("one-val", NUM_VAL)))
    )
    flags = (*RECIPE, "--train", train, "--val", val)
    out = commands.fit_once(folder / "backbone", *flags, deadline_seconds=deadline_seconds)
    accuracy = commands.last_score(out, "val_accuracy")
    print(f"the backbone is right about {accuracy:.3f} of shapes that were held out", flush=True)
    return max(out.glob("checkpoints/step-*")) / "weights.params"


def _samples(count: int, seed: int) -> Iterator[tuple[Any, bytes]]:
    """Yield the class and the picture of scenes in which there is one shape."""
    rng = np.random.default_rng(seed)
    while count:
        picture, boxes, _ = boxed_shapes.scene(rng)
        if len(boxes) == 1:
            count -= 1
            yield float(boxes[0, 4]), boxed_shapes.encoded(picture)
