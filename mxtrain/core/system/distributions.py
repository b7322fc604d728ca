"""All that is installed beside Python, by name and version, and the lock file that it was installed by."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sys
from pathlib import Path

LOCKED_BY = "locked_by.txt"  # a copy of the lock file, where the environment was made from one


def installed() -> dict[str, str]:
    """Return the version of every installed distribution, by names as lock files have them.

    Folders' names say both; to read what is in them, as importlib.metadata does, takes fifty times as long.
    """
    found: dict[str, str] = {}
    for folder in sys.path:
        with contextlib.suppress(OSError):  # a file, or nothing
            for name in os.listdir(folder or "."):
                stem, suffix = os.path.splitext(name)
                if suffix in (".dist-info", ".egg-info") and "-" in stem:
                    project, version, *_ = stem.split("-")  # Debian's name the Python too
                    found.setdefault(re.sub(r"[-_.]+", "-", project).lower(), version)
    return dict(sorted(found.items()))


def lock() -> str | None:
    """Return the SHA-256 of the lock file that this environment was made from, if there was one."""
    path = Path(sys.prefix, LOCKED_BY)
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
