"""Measurements of a run, each in a process of its own: MXNet's threads, precision and memory are a whole process's.

Owns the processes, their limits of time and memory, and their end; what they do is `trial.py`'s. Never loads mxnet.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import IO, Any

from mxtrain import config
from mxtrain.config import Run
from mxtrain.core.die_with_parent import SUPERVISOR_PID
from mxtrain.core.errors import BUG, DATA, USAGE, DataError, Stop, UsageError
from mxtrain.core.system import machine

LONGEST_SECONDS = 600.0  # of one measurement, whatever it is given: a net may take minutes a step
POLL_SECONDS = 0.02  # in which a process may take memory unseen
POLLS_BETWEEN_LOOKS = 25  # for processes that it has started
KILLED = -9
PREFIX = "mxtrain.doctor: "


class TooLarge(Exception):
    """A measurement needs more memory than it may have; the text says how that was seen."""


@dataclasses.dataclass(frozen=True)
class Bench:
    """A run whose flags and data have been examined, and what its processes have to know."""

    run: Run
    description: dict[str, Any]  # of its data, by its task
    local_workers: int = 1  # that share the cores of this host

    def with_flags(self, **flags: Any) -> Bench:
        """Return it with other flags, named as in YAML."""
        return dataclasses.replace(self, run=config.from_flat({**config.to_flat(self.run), **flags}))


def measure(bench: Bench, measurement: str, memory: int = 0, **options: Any) -> dict[str, Any]:
    """Return what a measurement finds, and the most memory that it took as `peak_rss_bytes`.

    TooLarge where it takes more than `memory` bytes (0: no limit), or the system or a GPU refuses it more. A Stop for
    what the measurement refuses, as fit would.
    """
    asked = {
        "measurement": measurement,
        "run": config.to_flat(bench.run),
        "description": bench.description,
        "local_workers": bench.local_workers,
        "options": options,
    }
    environment = {**os.environ, SUPERVISOR_PID: str(os.getpid())}
    with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile(
        "w+"
    ) as err:
        json.dump(asked, given)
        given.seek(0)
        line = [sys.executable, "-m", "mxtrain.doctor.run.trial"]
        with subprocess.Popen(line, stdin=given, stdout=out, stderr=err, env=environment) as child:
            try:
                peak = _watch(child, memory)
            finally:
                child.kill()
        out.seek(0), err.seek(0)
        found = _answer(child.returncode, out, err.read())
        found["peak_rss_bytes"] = peak = max(peak, found.get("peak_rss_bytes", 0))
        if memory and peak > memory:  # between two looks
            raise TooLarge(f"it took {peak / 2**20:,.0f} MiB, of {memory / 2**20:,.0f} allowed")
        return found


def _watch(child: subprocess.Popen[bytes], memory: int) -> int:
    """Wait for the end of a process, and return the most memory that it and those it started had at a time."""
    peak, of_others, deadline = 0, 0, time.monotonic() + LONGEST_SECONDS
    for poll in itertools.count():
        if child.poll() is not None:
            return peak
        of_others = of_children(child.pid) if poll % POLLS_BETWEEN_LOOKS == 0 else of_others
        peak = max(peak, machine.resident_bytes(child.pid) + of_others)
        if memory and peak > memory:
            raise TooLarge(f"it took {peak / 2**20:,.0f} MiB, of {memory / 2**20:,.0f} allowed")
        if time.monotonic() > deadline:
            raise UsageError(
                f"a measurement did not end within {LONGEST_SECONDS:g} s; give a smaller --micro-batch"
            )
        time.sleep(POLL_SECONDS if memory else 10 * POLL_SECONDS)
    raise AssertionError


def of_children(pid: int) -> int:
    """Return the memory of all that a process has started, its loader's workers; slow where a machine is full."""
    import psutil

    try:
        return sum(each.memory_info().rss for each in psutil.Process(pid).children(recursive=True))
    except psutil.Error:
        return 0


def _answer(exit_code: int, out: IO[str], said: str) -> dict[str, Any]:
    """Return what the process wrote, or raise what it has ended of."""
    if exit_code == 0:
        found: dict[str, Any] = json.loads(out.read())
        if "out_of_memory" in found:
            raise TooLarge(*found["out_of_memory"])
        return found
    if exit_code == KILLED:
        raise TooLarge("the system killed it, as it does where memory runs out")
    *before, last = said.strip().splitlines() or [f"a measurement ended with exit code {exit_code}"]
    message = last[len(PREFIX) :] if last.startswith(PREFIX) else last
    if exit_code in (USAGE, DATA):
        raise (UsageError if exit_code == USAGE else DataError)(message)
    print("\n".join(before), file=sys.stderr)
    stop = Stop(message)
    stop.exit_code = exit_code if exit_code > 0 else BUG
    raise stop
