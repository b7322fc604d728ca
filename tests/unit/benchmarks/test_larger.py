"""The benchmark of held layers: what it counts of a process, and its bars."""

from __future__ import annotations

import mmap
import tempfile
from pathlib import Path

from benchmarks.harness import job_memory
from benchmarks.larger import __main__ as larger
from benchmarks.larger.jobs import Job

WHOLE, HELD = Job(3000, 1000, 0, [9, 9, 2], 512, "a"), Job(900, 1500, 1200, [9, 9, 4], 512, "a")


def test_files_without_names_that_a_process_maps_are_counted() -> None:
    before = job_memory.mapped_bytes(Path("/proc/self"))
    with tempfile.TemporaryFile() as file:
        file.truncate(1 << 20)
        content = mmap.mmap(file.fileno(), 1 << 20)
    assert job_memory.mapped_bytes(Path("/proc/self")) - before == 1 << 20
    content.close()
    assert job_memory.mapped_bytes(Path("/proc/self")) == before


def test_a_job_has_the_bytes_of_both_workers_and_the_speed_of_later_steps() -> None:
    assert (HELD.total, HELD.speed) == (3300, 128)


def test_bars_are_ratios_of_a_round() -> None:
    met, missed = larger._bars({"layers": [HELD], "remat": [WHOLE]})
    assert (met.found, met.is_met, missed.found, missed.is_met) == ("0.30", True, "0.50", False)
    assert not any(bar.is_met for bar in larger._bars({"layers": [HELD]}))
