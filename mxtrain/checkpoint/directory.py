"""A checkpoint is a folder: arrays in MXNet's own format, everything else in state.json, checksums in a manifest.

Owns writing one so that it is either intact or absent, finding the newest intact one, and deleting old ones. No file is
a pickle. What a checkpoint of a run contains is decided in `train/state.py`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import logging
import math
import shutil
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, NamedTuple

from mxtrain.checkpoint import checked_files
from mxtrain.cluster.worker_group import SINGLE_WORKER
from mxtrain.core import formats
from mxtrain.core.durable import cannot_write_run, fsync, writing
from mxtrain.core.errors import DataError, UsageError
from mxtrain.core.params_file import Chunk, NamedArrays, encoded

logger = logging.getLogger(__name__)

STATE, MANIFEST = "state.json", "manifest.json"
WEIGHTS, OPTIMIZER, AVERAGES, GRID = "weights.params", "optimizer.params", "ema.params", "grid.params"
AVERAGE, MASKS = (
    "average.params",
    "masks.params",
)  # of weights taken so far by --average; of --prune-by weight
CONVERTED = "converted"  # a key of state.json: weights from elsewhere, of which no run can be resumed
WRITING, REPLACED, DELETING, ASIDE = ".writing-", ".replaced-", ".deleting-", ".aside-"
NUM_READ = 2  # intact checkpoints that are read in full before a cluster agrees on a step


class Checkpoint(NamedTuple):
    """An intact checkpoint on disk: its folder, and the content of its state.json."""

    path: Path
    state: dict[str, Any]
    others: tuple[Path, ...] = ()  # checkpoints of the same net, with whose weights its own are averaged

    @property
    def widths(self) -> dict[str, int]:
        """The widths of its net where they are not those that the net's name has: --prune was given."""
        found: dict[str, int] = self.state.get("widths", {})
        return found


class FilesAside(NamedTuple):
    """Files of a checkpoint that others write, each into this folder."""

    folder: Path
    write: Callable[[Callable[[], None]], Mapping[str, Any]]  # waits for them, and returns their sums by name


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A checkpoint in host memory: files of named arrays, and the values for state.json.

    Arrays may also be elsewhere, and be asked for one after the other when they are written.
    """

    step: int
    files: Mapping[str, NamedArrays]
    state: dict[str, Any]
    aside: FilesAside | None = None


def write(
    folder: Path, snapshot: Snapshot, report_progress: Callable[[], None] = SINGLE_WORKER.report_progress
) -> Path:
    """Write `snapshot` as a checkpoint in `folder` and return its path; at every moment it is intact or absent.

    `report_progress` is called with every piece that has reached the disk.
    """
    final = path_of(folder, snapshot.step)
    aside = folder / (WRITING + final.name)
    state = {"version": formats.CHECKPOINT, "step": snapshot.step, **snapshot.state}
    try:
        clean(folder)
        aside.mkdir(parents=True)
        sums = {
            name: checked_files.write(aside / name, encoded(named), report_progress)
            for name, named in snapshot.files.items()
        }
        if snapshot.aside is not None:
            sums.update(_taken_in(snapshot.aside, aside, report_progress))
        sums[STATE] = checked_files.write(aside / STATE, _json_text(state))
        checked_files.write(aside / MANIFEST, _json_text(sums))
        fsync(aside)
        if final.exists():
            final.rename(folder / (REPLACED + final.name))
        aside.rename(final)
        fsync(folder)
        clean(folder)
    except OSError as error:
        with contextlib.suppress(OSError):
            clean(folder)
        raise cannot_write_run(final, error) from None
    return final


def _taken_in(files: FilesAside, folder: Path, report_progress: Callable[[], None]) -> Mapping[str, Any]:
    """Wait for the files of others, move them into a folder, and return their sums."""
    sums = files.write(report_progress)
    for name in sums:
        (files.folder / name).rename(folder / name)
    files.folder.rmdir()
    return sums


def new_folder_aside(folder: Path, step: int) -> Path:
    """Return a new folder for the `FilesAside` of a step; what a kill has left of others goes."""
    with writing(folder):
        for path in folder.glob(ASIDE + "*"):
            _delete(path)
        made = folder / f"{ASIDE}{step}"
        made.mkdir(parents=True)
        return made


def last_step(folder: Path) -> Path | None:
    """Return the checkpoint of the last step, whether it is intact or not."""
    return next(iter(_steps(folder)[-1:]), None)


def clean(folder: Path) -> None:
    """Repair what a kill has left: delete what is incomplete, restore what was not replaced yet."""
    for path in folder.glob(REPLACED + "*"):
        final = folder / path.name[len(REPLACED) :]
        if not final.exists():
            path.rename(final)
    for prefix in (WRITING, REPLACED, DELETING):
        for path in folder.glob(prefix + "*"):
            _delete(path)


def set_aside_after(folder: Path, step: int) -> None:
    """Rename checkpoints of later steps than `step`, damaged ones or of a run that went on, to `unused-...`."""
    for path in _steps(folder):
        if int(path.name[len("step-") :]) > step:
            target = _free_path(folder / f"unused-{path.name}")
            with writing(target):
                path.rename(target)
            logger.warning(
                "%s is past step %d, where this run resumes: renamed to %s", path, step, target.name
            )


def _free_path(path: Path) -> Path:
    """Return `path`, or with a number appended where something is there already."""
    others = (path.with_name(f"{path.name}-{number}") for number in itertools.count(2))
    return next(each for each in itertools.chain([path], others) if not each.exists())


def read_state(checkpoint: Path) -> dict[str, Any]:
    """Return the state.json of a checkpoint after verifying all its checksums; DataError names the file that fails."""
    try:
        sums = json.loads((checkpoint / MANIFEST).read_text(encoding="utf-8"))
        if not isinstance(sums, dict) or STATE not in sums or len(sums) < 2:
            raise ValueError(f"{MANIFEST} does not list its files")
        if isinstance(sums[STATE], str):
            raise _of_first_format(checkpoint)
        _verify(checkpoint / STATE, sums.pop(STATE))
        state: dict[str, Any] = json.loads((checkpoint / STATE).read_text(encoding="utf-8"))
        # Before the other files, of which a later format may say other things.
        formats.refuse_newer(checkpoint / STATE, state.get("version"), formats.CHECKPOINT)
        if state["version"] < formats.CHECKPOINT:
            raise _of_first_format(checkpoint)
        for name, expected in sums.items():
            _verify(checkpoint / name, expected)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        name = f"{Path(error.filename).name}: " if isinstance(error, OSError) and error.filename else ""
        raise DataError(f"{checkpoint}: not a whole checkpoint ({name}{reason})") from None
    return state


def _verify(path: Path, expected: Any) -> None:
    if checked_files.sum_of(path) != expected:
        raise DataError(f"{path}: damaged, it is not what {MANIFEST} says")


def newest(folder: Path) -> Checkpoint | None:
    """Return the newest intact checkpoint; None where there is none, DataError where all are damaged."""
    return next(iter(_newest(folder, 1)), None)


def intact_steps(folder: Path) -> dict[int, str]:
    """Return the steps of the intact checkpoints that a cluster may resume from, oldest first, with their jobs.

    Only the newest are verified: the disks of workers are one checkpoint apart at most, so one of these will be chosen.
    """
    read = _newest(folder, NUM_READ)
    states = [each.state for each in reversed(read)]
    if len(read) == NUM_READ:  # else there are no others
        unverified = [state for state in map(_read_unverified, _steps(folder)) if state is not None]
        states = [*(state for state in unverified if state["step"] < states[0]["step"]), *states]
    return {state["step"]: str(state.get("job", "")) for state in states}


def _newest(folder: Path, number: int) -> list[Checkpoint]:
    """Return up to `number` intact checkpoints, newest first; DataError where there are some, but all are damaged."""
    found = list(itertools.islice(intact(folder), number))
    if not found and _steps(folder):
        raise DataError(
            f"{folder}: holds checkpoints, but none that can be read; repair one, or give --resume never "
            "(which keeps them) or another --out"
        )
    return found


def of_run(run: Path) -> Path:
    """Return the folder of a run folder's checkpoints."""
    return run / "checkpoints"


def has_begun(path: Path) -> bool:
    """Return whether a path is a run folder, whose first checkpoint may be yet to come."""
    return all((path / name).is_file() for name in ("config.yaml", ".lock"))


def is_checkpoint(path: Path) -> bool:
    """Return whether a path is the folder of a checkpoint, be it damaged."""
    named_so = path.name.startswith("step-") and path.parent.name == "checkpoints"
    return path.is_dir() and (named_so or any((path / name).is_file() for name in (MANIFEST, STATE)))


def path_of(folder: Path, step: int) -> Path:
    """Return the path of a step's checkpoint."""
    return folder / f"step-{step:08d}"


def best(folder: Path) -> Checkpoint | None:
    """Return the intact checkpoint with the best score, of equals the newest; the newest where none is finite."""
    return next(iter(ranked(folder)), None)


def ranked(folder: Path) -> list[Checkpoint]:
    """Return the intact checkpoints of finite scores, the best first; all, the newest first, where none has one."""
    found = list(intact(folder))
    scored = [each for each in found if math.isfinite(_score(each.state))]
    return sorted(scored, key=lambda each: -_merit(each.state)) if scored else found


def _score(state: Mapping[str, Any]) -> float:
    """Return the score of a checkpoint; NaN where it has none."""
    return math.nan if state.get("score") is None else float(state["score"])


def _merit(state: Mapping[str, Any]) -> float:
    """Return a number that is higher for a better score."""
    score = _score(state)
    return -score if state.get("is_lower_better") else score


def prune(folder: Path, keep_last: int, keep_best: int) -> None:
    """Delete all checkpoints but the newest `keep_last` and the best `keep_best`; incomplete ones stay."""
    states = [(path, _read_unverified(path)) for path in _steps(folder)]
    whole = [(path, state) for path, state in states if state is not None]
    scored = sorted((_merit(state), path) for path, state in whole if math.isfinite(_score(state)))
    best_of_all = scored[-keep_best:] if keep_best else []
    kept = {path for path, _ in whole[-keep_last:]} | {path for _, path in best_of_all}
    for path, _ in whole:
        if path not in kept:
            _delete(path)


def _delete(path: Path) -> None:
    """Delete a checkpoint; a failure (a file that is open on NFS) is logged, and the next write tries again."""
    # Renamed first, so that an interrupted deletion leaves nothing that looks like a checkpoint.
    doomed = path if path.name.startswith(".") else path.with_name(DELETING + path.name)
    try:
        path.rename(doomed)
        shutil.rmtree(doomed)
    except OSError as error:
        logger.warning("%s: cannot be deleted (%s)", path, error.strerror or error)


def intact(folder: Path) -> Iterator[Checkpoint]:
    """Yield the intact checkpoints, newest first; a damaged one is logged and skipped."""
    for path in reversed(_steps(folder)):
        try:
            yield Checkpoint(path, read_state(path))
        except DataError as error:
            logger.error("skipping a checkpoint: %s", error)  # also with --quiet: another one answers


def _steps(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("step-*") if path.is_dir() and path.name[5:].isdecimal())


def _read_unverified(path: Path) -> dict[str, Any] | None:
    """Return the state of a checkpoint whose files have the right lengths, else None; checksums are not verified."""
    try:
        for name, expected in json.loads((path / MANIFEST).read_text(encoding="utf-8")).items():
            if (path / name).stat().st_size != expected["bytes"]:
                return None
        state: dict[str, Any] = json.loads((path / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return None
    return state


def _of_first_format(checkpoint: Path) -> UsageError:
    return UsageError(
        f"{checkpoint}: written in format 1, this mxtrain reads {formats.CHECKPOINT}; resume with the mxtrain that "
        "wrote it, or give --resume never or another --out"
    )


def _json_text(content: Any) -> list[Chunk]:
    return [json.dumps(content, indent=1).encode()]
