"""The most memory that a command takes."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, Sequence

# Between the two: what Linux counts for a process begins with the memory of the one that started it, and a process of
# tests has gigabytes.
WATCH = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(process.pid, 0)
print(usage.ru_maxrss / 1024)
sys.exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1)
"""


def peak(line: Sequence[object], timeout: float = 100, **options: Any) -> float:
    """Run a command, which has to succeed, and return the most memory that it took, in MiB."""
    watched = [sys.executable, "-c", WATCH, *map(str, line)]
    done = subprocess.run(watched, stdout=subprocess.PIPE, text=True, timeout=timeout, **options)
    assert done.returncode == 0
    return float(done.stdout)
