"""The files of a run, measured and judged by what the run needs."""

from __future__ import annotations

from pathlib import Path

from mxtrain.doctor.run import run_files


def test_files_are_judged_by_what_the_run_needs(tmp_path: Path) -> None:
    file = tmp_path / "t.rec"
    file.write_bytes(bytes(4 << 20))
    slow = run_files.examine([file], 1024, 1.0, 0)
    assert slow is not None
    assert slow["record_bytes"] == 4096
    fast = run_files.examine([file], 1024, 1e12, 0)
    assert fast is not None
    if slow["cold"] > 0.5:  # else it says, both times, that it learnt nothing about the disk
        assert slow["advice"] == []
        assert "the run needs 4.1e+03 TB/s" in fast["advice"][0]
    assert run_files.examine([], 1024, 1.0, 0) is None
