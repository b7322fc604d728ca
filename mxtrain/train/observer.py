"""The seam by which a program looks at its run while that is trained; needs no mxnet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mxtrain.report.sinks.record import Record

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block


class RunObserver:
    """A looker-on at a run, on its first worker, that changes nothing of it; this one looks at nothing."""

    def begin(self, net: Block, step: int, epoch: int) -> None:
        """Look at the net when so many steps are done, before the first of this attempt."""

    def record(self, record: Record) -> None:
        """Look at a record, once it is written."""

    def checkpoint(self, path: Path, step: int, epoch: int) -> None:
        """Look at the checkpoint of a step, once it is whole on disk."""


NOBODY = RunObserver()
