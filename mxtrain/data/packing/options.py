"""The options of `pack`, and the refusal of those without effect."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from mxtrain.config.components import choices
from mxtrain.core.errors import UsageError
from mxtrain.data.sources.item import Source

COPIES, DAMAGED = choices.DROPPED


@dataclasses.dataclass(frozen=True)
class Options:
    """The flags of `pack`, as `pack_command.py` names and explains them; None and the defaults are those of no flag."""

    source_type: str | None = None
    root: Path | None = None
    multi_label: bool = False
    target: str = ""
    inputs: str = ""
    exclude: str = ""
    categories: str = ""
    missing: str = "refuse"
    sample_weight: str = ""
    log_columns: str = ""
    lists: str = ""
    list_separator: str = "|"
    list_length: int = 100
    column_names: str = ""
    shared_embedding: str = ""
    train_share: float | None = None
    num_shards: int = 1
    shuffle: bool = True
    seed: int = 0
    short_side: int | None = None
    quality: int | None = None
    restart_intervals: bool | None = None  # None: where they can be made
    verify: str = "decode"
    drop: tuple[str, ...] = ()  # COPIES, DAMAGED
    tokenizer: str = "bytes"
    skip_bad: bool = False
    num_workers: int | None = None


# Options that change none of the bytes written, or only through the items or the way of restart intervals.
_NOT_OF_BYTES = (
    "skip_bad",
    "num_workers",
    "source_type",
    "root",
    "multi_label",
    "restart_intervals",
)


def affecting_bytes(options: Options) -> dict[str, Any]:
    """Return the options on which the bytes written depend, besides the items."""
    known = {**dataclasses.asdict(options), "drop": list(options.drop)}  # as JSON brings it back
    return {name: value for name, value in known.items() if name not in _NOT_OF_BYTES}


def check(options: Options, source: Source) -> None:
    """Raise UsageError for options that would have no effect on what this source holds."""
    if not source.holds_text:
        if options.tokenizer != "bytes":
            raise UsageError(f"--tokenizer is for text, and the source holds {source.noun}: leave it out")
        if not source.layout:
            if options.drop and options.verify != "decode":
                raise UsageError("--drop reads every picture to its end; leave --verify structure out")
            return
    for flag, is_set in [
        ("--drop", options.drop),
        ("--resize", options.short_side),
        ("--quality", options.quality),
        ("--restart-intervals", options.restart_intervals),
        ("--no-restart-intervals", options.restart_intervals is False),
    ]:
        if is_set:
            holds = "text" if source.holds_text else "arrays"
            raise UsageError(f"{flag} is for images, and the source holds {holds}: leave it out")
