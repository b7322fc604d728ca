"""What `pack` is asked to do, and what is no use asking."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from mxtrain.core.errors import UsageError
from tools.im2rec_wrapper.sources.item import Source


@dataclasses.dataclass(frozen=True)
class Options:
    kind: str | None = None
    root: Path | None = None
    multi_label: bool = False
    train_share: float | None = None
    num_shards: int = 1
    shuffle: bool = True
    seed: int = 0
    short_side: int | None = None
    quality: int | None = None
    restart_intervals: bool = False
    verify: str = "decode"
    tokenizer: str = "bytes"
    skip_bad: bool = False
    num_workers: int | None = None


# They change neither what is read nor what is written.
_FREE = ("skip_bad", "num_workers", "kind", "root", "multi_label")


def of_bytes(options: Options) -> dict[str, Any]:
    """The options that the bytes written depend on, besides the items."""
    return {name: value for name, value in dataclasses.asdict(options).items() if name not in _FREE}


def check(options: Options, found: Source) -> None:
    """Refuse what would do nothing."""
    if not found.holds_text:
        if options.tokenizer != "bytes":
            raise UsageError("--tokenizer is for text, and the source holds images: leave it out")
        return
    for flag, is_given in [
        ("--resize", options.short_side),
        ("--quality", options.quality),
        ("--restart-intervals", options.restart_intervals),
    ]:
        if is_given:
            raise UsageError(f"{flag} is for images, and the source holds text: leave it out")
