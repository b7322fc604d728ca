"""Processes of a benchmark: one that has ended is named, with what it said, before anybody waits for the others."""

from __future__ import annotations

import sys
import time

import pytest

from benchmarks.harness.groups import Process, ProcessGroup

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
