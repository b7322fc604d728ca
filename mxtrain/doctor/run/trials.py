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
    request = {
        "measurement": measurement,
        "run": config.to_flat(bench.run),
        "description": bench.description,
        "local_workers": bench.local_workers,
        "options": options,
    }
    environment = {**os.environ, SUPERVISOR_PID: str(os.getpid())}
    with tempfile.TemporaryFile("w+") as stdin, tempfile.TemporaryFile(
        "w+"
    ) as stdout, tempfile.TemporaryFile("w+") as stderr:
        json.dump(request, stdin)
        stdin.seek(0)
        line = [sys.executable, "-m", "mxtrain.doctor.run.trial"]
        with subprocess.Popen(line, stdin=stdin, stdout=stdout, stderr=stderr, env=environment) as child:
            try:
                peak = _watch(child, memory)
            finally:
                child.kill()
        stdout.seek(0), stderr.seek(0)
        measured = _answer(child.returncode, stdout, stderr.read())
        measured["peak_rss_bytes"] = peak = max(peak, measured.get("peak_rss_bytes", 0))
        if memory and peak > memory:  # between two looks
            raise TooLarge(f"it took {peak / 2**20:,.0f} MiB, of {memory / 2**20:,.0f} allowed")
        return measured


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


def _answer(exit_code: int, stdout: IO[str], stderr: str) -> dict[str, Any]:
    """Return what the process wrote, or raise what it has ended of."""
    if exit_code == 0:
        measured: dict[str, Any] = json.loads(stdout.read())
        if "out_of_memory" in measured:
            raise TooLarge(*measured["out_of_memory"])
        return measured
    if exit_code == KILLED:
        raise TooLarge("the system killed it, as it does where memory runs out")
    *before, last = stderr.strip().splitlines() or [f"a measurement ended with exit code {exit_code}"]
    message = last[len(PREFIX) :] if last.startswith(PREFIX) else last
    if exit_code in (USAGE, DATA):
        raise (UsageError if exit_code == USAGE else DataError)(message)
    print("\n".join(before), file=sys.stderr)
    stop = Stop(message)
    stop.exit_code = exit_code if exit_code > 0 else BUG
    raise stop
