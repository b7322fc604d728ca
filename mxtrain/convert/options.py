"""The options of a conversion, and what came of it, as its parts hand them on."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Sequence

from mxtrain.config import Run
from mxtrain.core.errors import UsageError


@dataclasses.dataclass(frozen=True)
class ConvertOptions:
    """The flags of a conversion, as the command has them."""

    model: str = ""  # as --model; found out when empty
    classes: Path | None = None  # a file of names
    image_size: int | str = 224
    val_resize: int = 0
    mean: str = "imagenet"
    deviation: str = "imagenet"
    drop_head: bool = False
    names: str = ""  # whose, in torch: torchvision or timm
    torch: str = ""  # a Python that has torch
    checkpoint: str | None = None  # of a run folder, on the way out
    samples: int = 0  # of Caffe's training set

    def run(self, model: str, channels: int = 3) -> Run:
        """Return the run that a converted net is described by."""
        return Run.of(
            model=model,
            channels=channels,
            image_size=self.image_size,
            val_resize=self.val_resize,
            mean=self.mean,
            deviation=self.deviation,
        )

    def check(self) -> None:
        """Refuse numbers that have to be those of a training set: there is none."""
        for name in ("mean", "deviation"):
            if getattr(self, name) == "auto":
                raise UsageError(f"--{name} auto: there is no training set here; give imagenet or numbers")


@dataclasses.dataclass(frozen=True)
class Conversion:
    """A conversion that was written."""

    out: Path
    origin: str  # in words: what was converted
    model: str  # as --model, or what torch calls it
    num_classes: int  # 0: without its head
    num_arrays: int
    notes: Sequence[str] = ()  # what somebody should know, a sentence each
    difference: float | None = None  # from torch's outputs, as a part of the largest; None: not compared
    same_classes: bool | None = None  # whether the likeliest are torch's

    def in_words(self) -> str:
        """Return the line that says it."""
        head = f"{self.num_classes} classes" if self.num_classes else "without its head"
        compared = (
            "" if self.difference is None else f", outputs as torch's to {self.difference:.1e} of the largest"
        )
        return f"{self.origin} -> {self.out}: {self.model}, {head}, {self.num_arrays} arrays{compared}"
