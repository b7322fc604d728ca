"""Damaged inputs end in a clear error or the right result; `make fuzz` runs more of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mxtrain.data.records.record_file import RecordFile
from tests.fuzz import case
from tests.fuzz.__main__ import run_in_children

ROOT = Path(__file__).resolve().parents[2]
NUM_INPUTS = int(os.environ.get("FUZZ_INPUTS", "150"))


@pytest.mark.timeout(600 + NUM_INPUTS // 10)
def test_damaged_inputs_end_in_a_clear_error_or_the_right_result():
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", "--inputs", str(NUM_INPUTS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500 + NUM_INPUTS // 10,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert f"{NUM_INPUTS} damaged inputs, 0 failures" in done.stdout


def test_good_files_are_taken(tmp_path):
    """Or the other test would show nothing."""
    for original in case.good_files():
        for with_index in (True, False):
            path = tmp_path / "fuzz.rec"
            original.write(path, with_index)
            assert not case.read_everything(path, original.contents)
            assert not case.check_says_wrong(path)


def test_a_reader_that_does_not_check_is_caught(tmp_path, monkeypatch):
    """Read without checksums: wrong samples get through, and the fuzz reports them."""
    read = RecordFile.read

    def trusting(self, *arguments):
        self.has_checksums, before = False, self.has_checksums
        try:
            return read(self, *arguments)
        finally:
            self.has_checksums = before

    monkeypatch.setattr(RecordFile, "read", trusting)
    failed = [seed for seed in range(60) if not ends_well(seed, tmp_path)]
    assert len(failed) >= 3


def ends_well(seed, folder):
    try:
        case.run(seed, folder)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize(
    ("death", "how"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "ended by signal 11"),
        ("faulthandler.dump_traceback_later(0.2, exit=True); time.sleep(20)", "ended with 1"),
    ],
)
@pytest.mark.parametrize("fatal", [5, 8])
def test_a_crash_and_a_hang_are_named_by_their_seed(capsys, death, how, fatal):
    """Crash a child as a C library would; the inputs after it are still run."""
    child = f"""
import faulthandler, os, signal, sys, time
start, count = int(sys.argv[2]), int(sys.argv[4])
for seed in range(start, start + count):
    print("begin", seed, flush=True)
    if seed == {fatal}:
        {death}
print("end")
"""
    assert run_in_children(range(3, 9), [sys.executable, "-c", child]) == 1
    out = capsys.readouterr().out
    assert f"--seed {fatal}`: the process {how}" in out
    assert "6 damaged inputs, 1 failures" in out
