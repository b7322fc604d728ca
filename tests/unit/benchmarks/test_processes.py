"""Processes of a benchmark: one that has ended is named, with what it said, before anybody waits for the others."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from benchmarks.harness import processes
from benchmarks.harness.groups import Process, ProcessGroup
from benchmarks.harness.processes import Failed

ENDED = "print('no kernel for this'); raise SystemExit(1)"
ANSWERING = "import sys\nfor line in sys.stdin: print('[1]', flush=True)"


def test_a_worker_that_has_ended_is_named_with_what_it_said() -> None:
    lines = [[sys.executable, "-c", code] for code in (ANSWERING, ENDED)]
    with ProcessGroup([Process(line, {}) for line in lines], num_workers=2) as group:
        while group.workers[1].poll() is None:
            time.sleep(0.01)
        with pytest.raises(RuntimeError, match="has ended:\nno kernel for this"):
            group.turn()


def test_workers_that_answer_take_turns_again_and_again() -> None:
    lines = [[sys.executable, "-c", ANSWERING]] * 2
    with ProcessGroup([Process(line, {}) for line in lines], num_workers=2) as group:
        assert [group.turn() for _ in range(3)] == [[[1], [1]]] * 3


def test_a_command_outside_of_the_checkout_does_not_import_it(tmp_path: Path) -> None:
    line = (sys.executable, "-c", "import benchmarks; print(1)")
    assert processes.require(*line).answer == 1
    with pytest.raises(Failed, match="No module named 'benchmarks'"):
        processes.require(*line, folder=tmp_path)
    with pytest.raises(Failed, match=r"not done in 0\.5 s"):
        processes.require(sys.executable, "-c", "import time; time.sleep(60)", deadline_seconds=0.5)
