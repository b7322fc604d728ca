"""The files of this checkout, or of the source distribution that was unpacked in its place."""

from __future__ import annotations

import fnmatch
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GLOB = ":(glob)"  # before a pattern whose * does not go into folders


def tracked(*patterns: str) -> list[Path]:
    """Return the files that git knows, or would: none of a build or of another tool."""
    if (ROOT / ".git").exists():
        command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
        listed = set(done.stdout.splitlines())
    else:
        names = (ROOT / "mxtrain.egg-info" / "SOURCES.txt").read_text().splitlines()
        listed = {name for name in names if not patterns or any(_matches(name, each) for each in patterns)}
    return [ROOT / name for name in sorted(listed) if (ROOT / name).is_file()]


def _matches(name: str, pattern: str) -> bool:
    if not pattern.startswith(GLOB):
        return fnmatch.fnmatchcase(name, pattern)
    pattern = pattern[len(GLOB) :]
    return fnmatch.fnmatchcase(name, pattern) and name.count("/") == pattern.count("/")
