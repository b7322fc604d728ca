"""Losses whose worker is killed in the very middle of what a job does with its gradients' grid.

Each is `swinging_loss`, and the job's first attempt has the kill: while sums travel in three parts, while the first
grid is learnt, while a checkpoint's file of it is written.
"""

from __future__ import annotations

import functools
import os
import signal
from pathlib import Path
from typing import Any, Callable, Iterable

from mxtrain.checkpoint import checked_files, directory
from mxtrain.kvstore import limbs
from mxtrain.optim.sums.grid import Grid
from tests.support.losses.swinging_loss import loss

FILE_NUMBER = 2  # the first checkpoint is whole


def killed_in_sums(output: Any, label: Any) -> Any:
    """The last worker has told which blocks are wide, and does not send their parts; the others have sent them."""
    _arm("worker-2", _patch_sums)
    return loss(output, label)


def killed_before_the_first_grid(output: Any, label: Any) -> Any:
    """The first worker does not tell its grid; the others wait for it."""
    _arm("worker-0", _patch_maxima)
    return loss(output, label)


def killed_with_the_first_grid(output: Any, label: Any) -> Any:
    """A worker dies when all have the grid."""
    _arm("worker-1", _patch_learning)
    return loss(output, label)


def killed_in_the_file_of_a_grid(output: Any, label: Any) -> Any:
    """The checkpoint has its weights and half a grid."""
    _arm("worker-0", _patch_file)
    return loss(output, label)


@functools.lru_cache(maxsize=None)
def _arm(node: str, patch: Callable[[], None]) -> None:
    if os.environ["MXTRAIN_NODE"] == node and os.environ["MXTRAIN_GENERATION"] == "0":
        patch()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _patch_sums() -> None:
    whole = limbs.WideBlocks._sum

    def sum_or_die(self: Any, key: str, *others: Any) -> Any:
        if key == limbs.PARTS:
            _die()
        return whole(self, key, *others)

    limbs.WideBlocks._sum = sum_or_die  # type: ignore[method-assign]


def _patch_maxima() -> None:
    Grid.maxima = lambda *given: _die()  # type: ignore[method-assign]


def _patch_learning() -> None:
    Grid.learn = lambda *given: _die()  # type: ignore[method-assign]


def _patch_file() -> None:
    whole, written = checked_files.write, []

    def write(path: Path, chunks: Iterable[Any], *others: Any) -> Any:
        if path.name == directory.GRID:
            written.append(path)
            if len(written) == FILE_NUMBER:
                content = b"".join(map(bytes, chunks))
                path.write_bytes(content[: len(content) // 2])
                _die()
        return whole(path, chunks, *others)

    checked_files.write = write
