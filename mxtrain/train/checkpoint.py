"""A checkpoint is a directory: arrays in MXNet's own format, everything else in state.json, checksums in a manifest.

Owns writing one so that it is either whole or absent, finding the newest whole one, and keeping few. Holds no
pickle. What the numbers mean is the loop's business.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Tuple

from mxtrain.errors import DataError, UsageError

logger = logging.getLogger(__name__)

VERSION = 1
Checkpoint = Tuple[Path, Dict[str, Any]]  # its folder and its state.json
STATE, MANIFEST = "state.json", "manifest.json"


def write(folder: Path, step: int, files: dict[str, Callable[[str], None]], state: dict[str, Any]) -> Path:
    """Write aside, fsync, rename: `files` maps a name to what writes it to a path."""
    final, aside = folder / f"step-{step:08d}", folder / f".writing-step-{step:08d}"
    clean(folder)
    try:
        aside.mkdir(parents=True)
        for name, save in files.items():
            save(str(aside / name))
        (aside / STATE).write_text(
            json.dumps({"version": VERSION, "step": step, **state}, indent=1), encoding="utf-8"
        )
        sums = {path.name: _checksum(path) for path in sorted(aside.iterdir())}
        (aside / MANIFEST).write_text(json.dumps(sums, indent=1), encoding="utf-8")
        for path in [*aside.iterdir(), aside]:
            fsync(path)
        if final.exists():
            shutil.rmtree(final)
        aside.rename(final)
        fsync(folder)
    except Exception as error:
        clean(folder)
        reason = getattr(error, "strerror", None) or str(error).strip().splitlines()[-1]
        raise UsageError(
            f"{final}: cannot be written ({reason}); make room, then the same command goes on"
        ) from None
    return final


def clean(folder: Path) -> None:
    """Drop what a write that was cut short has left."""
    for path in folder.glob(".writing-*"):
        shutil.rmtree(path)


def set_aside_after(folder: Path, step: int) -> None:
    """Rename checkpoints past `step`, damaged ones or another future's, so that none is taken for this run's."""
    for path in _steps(folder):
        if int(path.name[len("step-") :]) > step:
            target = folder / f"unused-{path.name}"
            if target.exists():
                shutil.rmtree(target)
            path.rename(target)
            logger.warning(
                "%s is past step %d, where this run goes on: renamed to %s", path, step, target.name
            )


def read_state(checkpoint: Path) -> dict[str, Any]:
    """state.json of a checkpoint whose checksums all hold; DataError names the file that fails."""
    try:
        sums = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))
        if not isinstance(sums, dict) or STATE not in sums or len(sums) < 2:
            raise ValueError(f"{MANIFEST} does not list its files")
        for name, checksum in sums.items():
            if _checksum(checkpoint / name) != checksum:
                raise DataError(f"{checkpoint / name}: damaged, its checksum differs from {MANIFEST}")
        state: dict[str, Any] = json.loads((checkpoint / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{checkpoint}: not a whole checkpoint ({error})") from None
    if state["version"] != VERSION:
        raise DataError(f"{checkpoint}: written in format {state['version']}, this mxtrain reads {VERSION}")
    return state


def newest(folder: Path) -> Checkpoint | None:
    """The newest whole checkpoint, None where there is none at all; only as many are read as it takes."""
    found = next(_whole(folder), None)
    if found is None and _steps(folder):
        raise DataError(
            f"{folder}: holds checkpoints, but none that can be read; repair one, or give --resume never "
            "(which keeps them) or another --out"
        )
    return found


def best(folder: Path) -> Checkpoint | None:
    """The whole checkpoint with the highest score; the newest where none has one."""
    found = list(_whole(folder))
    scored = [each for each in found if each[1].get("score") is not None]
    return max(scored, key=lambda each: each[1]["score"]) if scored else next(iter(found), None)


def _whole(folder: Path) -> Iterator[Checkpoint]:
    """Newest first; one that cannot be read is named and skipped."""
    for path in reversed(_steps(folder)):
        try:
            yield path, read_state(path)
        except DataError as error:
            logger.warning("skipping a checkpoint: %s", error)


def prune(folder: Path, keep_last: int, keep_best: int) -> None:
    """Delete all but the newest and the best."""
    paths = _steps(folder)
    scored = sorted((score, path) for score, path in zip(map(_score, paths), paths) if score is not None)
    kept = {*paths[-keep_last:], *(path for _, path in scored[len(scored) - keep_best :])}
    for path in paths:
        if path not in kept:
            shutil.rmtree(path)


def _steps(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("step-*") if path.is_dir() and path.name[5:].isdecimal())


def _score(path: Path) -> float | None:
    """What the checkpoint's evaluation came to; None where it had none or cannot be read."""
    try:
        score: float | None = json.loads((path / STATE).read_text(encoding="utf-8")).get("score")
    except (OSError, ValueError):
        return None
    return score


def _checksum(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
