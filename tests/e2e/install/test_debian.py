"""A minimal Debian, and in it a user without root, who types `make demo`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from benchmarks.harness.processes import Failed
from benchmarks.pythons import debian, fresh

MINUTE = 60


# The fast tests that hold it in small: tests/unit/core/test_opencv.py, tests/unit/doctor/machine/test_install.py, and
# test_libraries_that_a_slim_debian_lacks in tests/engine/test_runtime.py.
@pytest.mark.slow
@pytest.mark.system
@pytest.mark.timeout(40 * MINUTE)
@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_make_demo_without_root(suite: str, tmp_path: Path) -> None:
    if os.geteuid() != 0 or not shutil.which("mmdebstrap") or not shutil.which("unshare"):
        pytest.skip("needs root, mmdebstrap and unshare")
    root = tmp_path / "root"
    debian.make(root, suite)
    home = root / debian.HOME
    fresh.last_commit(home / "mxtrain")
    debian.give(home)
    for command in (
        "ldconfig -p | grep -E 'libGL|libgomp|libquadmath'",
        "touch /etc/written",
        "command -v cc",
    ):
        with pytest.raises(Failed):
            debian.run(root, command, MINUTE)
    done = debian.run(root, "cd mxtrain && make demo", 30 * MINUTE)
    assert done.output.splitlines()[-1].startswith("done: val accuracy 0.9")
    assert "Traceback" not in done.errors
