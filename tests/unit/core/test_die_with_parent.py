"""A process of a job does not outlive its supervisor; what the kernel does then is in test_supervisor_signals.py."""

from __future__ import annotations

import os
import subprocess
import sys

from mxtrain.core.errors import RESTART_ME
from tests.support.jobs.supervised_groups import ROOT


def test_a_process_whose_supervisor_has_gone_leaves() -> None:
    line = [
        sys.executable,
        "-c",
        "from mxtrain.core.die_with_parent import die_with_parent; die_with_parent(); print('runs')",
    ]
    for supervisor_pid, code, said in (
        ("1", RESTART_ME, ""),
        (str(os.getpid()), 0, "runs\n"),
        ("", 0, "runs\n"),
    ):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "MXTRAIN_SUPERVISOR_PID": supervisor_pid}
        done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=20)
        assert (done.returncode, done.stdout) == (code, said)
