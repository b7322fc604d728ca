"""A minimal Debian in a folder, and mxtrain in it as a user without root; for `benchmarks.pythons` and its test.

Owns the root that mmdebstrap makes, what of this machine is lent to it (name servers, pip's configuration), and the
mount namespace in which a command runs there. Needs root, mmdebstrap and Debian's mirror.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

PACKAGES = "python3,python3-venv,make,ca-certificates"
ROOT_SECONDS, MAKE_SECONDS, PART_SECONDS = 600, 1800, 300
USER, HOME = 1234, "home/someone"
LENT = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
VARIABLES = ("PIP_", "SSL_", "http", "HTTP", "no_proxy")

# In a mount namespace of its own: what is mounted goes away with the command.
INSIDE = """
mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" || exit 1
root=$1 user=$2; shift 2
exec chroot --userspec="$user" "$root" "$@"
"""


def make(root: Path, suite: str) -> None:
    """Make a minbase of a Debian suite with the packages that README names, and a user's home in it."""
    line = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", suite, str(root)]
    subprocess.run(line, check=True, capture_output=True, text=True, timeout=ROOT_SECONDS)
    for path in map(Path, LENT):
        if path.exists():
            shutil.copy(path, root / path.relative_to("/"))
    (root / HOME).mkdir()
    os.chown(root / HOME, USER, USER)


def give(folder: Path) -> None:
    """Make the user the owner of all in a folder."""
    subprocess.run(["chown", "-R", f"{USER}:{USER}", str(folder)], check=True, timeout=PART_SECONDS)


def run(root: Path, command: str, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in the user's home in there; CalledProcessError where it fails."""
    lent = [f"{name}={value}" for name, value in os.environ.items() if name.startswith(VARIABLES)]
    inside = [
        "env",
        "-i",
        f"HOME=/{HOME}",
        "PATH=/usr/bin:/bin",
        *lent,
        "bash",
        "-c",
        f"cd /{HOME} && {command}",
    ]
    line = ["unshare", "-m", "bash", "-c", INSIDE, "bash", str(root), f"{USER}:{USER}", *inside]
    return subprocess.run(line, check=True, capture_output=True, text=True, timeout=seconds)


def examine(row: Any, folder: Path) -> list[str]:
    """Run `make demo` and each part in such a Debian, and return the versions and outcomes for the table."""
    from benchmarks import pythons

    root = folder / "root"
    try:
        make(root, row.debian)
        pythons.last_commit(root / HOME / "mxtrain")
        give(root / HOME)
        run(root, "cd mxtrain && make demo", MAKE_SECONDS)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        return ["", "", *[f"not installed: {pythons.last_words(error)}"] * len(pythons.PARTS)]
    python = f"/{HOME}/mxtrain/.venv/bin/python"
    code = "import platform, cv2, numpy; print(platform.python_version(), numpy.__version__, cv2.__version__)"
    versions = run(root, f"{python} -c {shlex.quote(code)}", PART_SECONDS).stdout.split()
    cells = []
    for part in pythons.PARTS:
        try:
            # Not beside the checkout: a folder called mxtrain hides what is installed.
            run(
                root,
                f"mkdir -p work && cd work && {python} ../mxtrain/benchmarks/pythons.py --part {part}",
                PART_SECONDS,
            )
            cells.append("ok")
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            cells.append(pythons.last_words(error))
    return [f"{versions[0]}, NumPy {versions[1]}", versions[2], *cells]
