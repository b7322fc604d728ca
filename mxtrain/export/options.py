"""Options of an export, and which of them do not go together. Needs no mxnet."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, Sequence

from mxtrain.config.checks import hold_checks
from mxtrain.config.components import choices
from mxtrain.core.errors import UsageError

FORMATS = ("onnx", "symbol", "int8")


class Int8Options(NamedTuple):
    """The options of an export to int8."""

    calibrate: object = None  # where samples are from, if not from the run's own --train
    samples: int = 512
    exclude: Sequence[str] = ()
    tolerance: float = 0.01


class ExportOptions(NamedTuple):
    """The kind of export that is wanted."""

    to: str  # one of FORMATS
    out: Path | None = None  # its folder, if not in that of the run
    dynamic_batch: bool = False
    batch: int | None = None  # samples at a time of an ONNX that takes no other number
    from_pixels: bool = False
    samples: int = 64  # to compare with the net
    int8: Int8Options = Int8Options()
    hold: str = choices.HOLD_ALL

    @property
    def is_held(self) -> bool:
        """True where weights are read as they are looked at, and are never here together."""
        return self.hold == choices.HOLD_LAYERS

    @property
    def fixed_batch(self) -> int | None:
        """The number of samples that it takes at a time; None for any number."""
        return None if self.dynamic_batch or self.to != "onnx" else self.batch or 1

    def check(self) -> None:
        """Refuse, with a UsageError, what cannot be or does not go together."""
        if self.to not in FORMATS:
            raise UsageError(f"--to {self.to}: give one of {', '.join(FORMATS)}")
        if self.batch is not None and (self.dynamic_batch or self.to != "onnx"):
            other = "--dynamic-batch" if self.dynamic_batch else f"--to {self.to}, which takes any number"
            raise UsageError(f"--batch {self.batch}: does not go with {other}; leave one of them out")
        if self.to == "int8" and self.from_pixels:
            raise UsageError("--from-pixels: does not go with --to int8; leave it out")
        hold_checks.check_known(self.hold)
        if self.to == "int8" and self.is_held:
            raise UsageError(
                f"{hold_checks.FLAG}: does not go with --to int8, which takes the whole net; leave it out"
            )
        if not 0 <= self.int8.tolerance <= 1:
            raise UsageError(
                f"--tolerance {self.int8.tolerance:g}: give a share of the score from 0 to 1, such as 0.01"
            )
        for flag, number in (
            ("--batch", self.batch),
            ("--samples", self.samples),
            ("--calibration-samples", self.int8.samples),
        ):
            if number is not None and number < 1:
                raise UsageError(f"{flag} {number}: give 1 or more")


def int8_options(to: str, **options: Any) -> Int8Options:
    """Return the options for int8 of those that are there; the others are None or empty.

    UsageError where there is one and the export is to something else.
    """
    chosen = {name: value for name, value in options.items() if value not in (None, ())}
    if chosen and to in FORMATS and to != "int8":
        name = next(iter(chosen))
        flag = "calibration-samples" if name == "samples" else name
        raise UsageError(f"--{flag}: goes with --to int8 alone; leave it out")
    return Int8Options(**chosen)
