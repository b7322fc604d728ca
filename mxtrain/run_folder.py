"""The run folder: what a run leaves on disk beside its checkpoints.

Owns `config.yaml` (the run, usable with --config), `environment.json` (versions, kernels, command line, git
state), `logs/`, and setting an older run aside when one starts anew in its folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator

import mxtrain
from mxtrain import config, durable, kernels, machine, plain
from mxtrain.errors import UsageError
from mxtrain.kv.group import ALONE, Group
from mxtrain.train import checkpoint

PARTS = ("config.yaml", "environment.json", "metrics.jsonl", "checkpoints", "logs/*")
ROLE_LOGS = ("scheduler", "server", "worker")  # a supervisor writes these, also at this moment


@contextlib.contextmanager
def held(run: config.Run, group: Group = ALONE) -> Iterator[Path]:
    """The run's folder, for this process alone, with the log going there too; of workers on a disk one holds it."""
    out = Path(run.keep.out)
    if not group.writes:
        start_log(run.keep.log_level)
        yield out
        return
    with _named(out):
        handle = _lock(out)
    try:
        with _named(out):
            checkpoint.clean(out / "checkpoints")
            if run.keep.resume == "never":
                _set_aside(out)
            start_log(run.keep.log_level, out / "logs" / "fit.log")
        yield out
    finally:
        os.close(handle)


def describe(run: config.Run, group: Group = ALONE) -> None:
    """Write down what is run, and with what."""
    if not group.writes:
        return
    out = Path(run.keep.out)
    with _named(out):
        durable.replace(out / "config.yaml", config.to_yaml(run))
        durable.replace(out / "environment.json", json.dumps(_environment(), indent=1) + "\n")


@contextlib.contextmanager
def _named(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"--out {error.filename or out}: {error.strerror or error}; give another folder"
        ) from None


def last_evaluation(out: Path) -> dict[str, Any] | None:
    """The newest evaluation in metrics.jsonl."""
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    evaluations: list[dict[str, Any]] = [record for record in records if record["kind"] == "eval"]
    return evaluations[-1] if evaluations else None


def _lock(out: Path) -> int:
    """A handle that keeps other runs out while it is open: two in one folder would spoil each other's files."""
    handle = os.open(out / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise UsageError(
            f"--out {out}: another mxtrain.fit is running there; wait for it or give another"
        ) from None
    return handle


def _set_aside(out: Path) -> None:
    """Move what an older run left to previous-N: starting anew deletes nothing."""
    old = [path for part in PARTS for path in out.glob(part) if not path.name.startswith(ROLE_LOGS)]
    if not any((out / "checkpoints").glob("*")):
        return
    numbers = [int(path.name[9:]) for path in out.glob("previous-*") if path.name[9:].isdecimal()]
    aside = out / f"previous-{max(numbers, default=0) + 1}"
    (aside / "logs").mkdir(parents=True)
    for path in old:
        path.rename(aside / path.relative_to(out))


def _environment() -> dict[str, Any]:
    return {
        "command": [sys.executable, *sys.argv],
        "python": platform.python_version(),
        "mxtrain": mxtrain.__version__,
        "wheels": machine.installed_wheels(),
        "kernels": kernels.used(),
        "host": platform.node(),
        "git": _git_state(),
    }


def _git_state() -> dict[str, Any] | None:
    """Commit and cleanliness of the folder that the command was given in; None outside a checkout."""
    try:
        commit = _git("rev-parse", "HEAD")
        return {"commit": commit, "uncommitted": plain.lines(_git("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return None


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()


class LogFile(logging.FileHandler):
    """Silent about a full disk, which logging would tell in tracebacks: the run itself ends with one line on it."""

    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)


def start_log(level: str, path: Path | None = None) -> None:
    """From here on the log goes to stderr, and whole to a file if one is given."""
    root = logging.getLogger("mxtrain")
    root.setLevel(logging.DEBUG)
    to_terminal = logging.StreamHandler()
    to_terminal.setFormatter(logging.Formatter("%(message)s"))
    to_terminal.setLevel(level.upper())
    root.handlers = [to_terminal]
    root.propagate = False
    if path is not None:
        path.parent.mkdir(exist_ok=True)
        to_file = LogFile(str(path), encoding="utf-8")
        to_file.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        root.addHandler(to_file)
