"""A minimal Debian in a folder, and mxtrain in it as a user without root; for `benchmarks.pythons` and a test.

Owns the root that mmdebstrap makes, what of this machine is lent to it (name servers, pip's configuration), and the
mount namespace in which a command runs there. Needs root, mmdebstrap and Debian's mirror.
"""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

from benchmarks.harness.processes import Ended, require
from benchmarks.pythons import fresh
from benchmarks.pythons.rows import Row

PACKAGES = "python3,python3-venv,make,ca-certificates"
COMPILER = "gcc,libc6-dev,python3-dev"
ROOT_SECONDS = 600
USER, HOME = 1234, "home/someone"
LENT = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")
VARIABLES = ("PIP_", "SSL_", "http", "HTTP", "no_proxy")

# In namespaces of its own: what is mounted and what was started goes away with the command.
INSIDE = """
mount -t proc proc "$1/proc" && mount --rbind /dev "$1/dev" || exit 1
root=$1 user=$2; shift 2
exec chroot --userspec="$user" "$root" "$@"
"""


def make(root: Path, suite: str, packages: str = PACKAGES) -> None:
    """Make a minbase of a Debian suite, with the packages that README names, and a user's home in it."""
    line = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={packages}", suite, str(root)]
    # A mirror may stand still, and an index of Debian's testing expires within a week.
    line.append('--aptopt=Acquire::Check-Valid-Until "false"')
    require(*line, deadline_seconds=ROOT_SECONDS)
    for path in map(Path, LENT):
        if path.exists():
            shutil.copy(path, root / path.relative_to("/"))
    (root / HOME).mkdir()
    os.chown(root / HOME, USER, USER)


def give(folder: Path) -> None:
    """Make the user the owner of all in a folder."""
    require("chown", "-R", f"{USER}:{USER}", folder, deadline_seconds=fresh.PART_SECONDS)


def run(root: Path, command: str, seconds: float) -> Ended:
    """Run a line of bash in the user's home in there; Failed where it fails."""
    lent = [f"{name}={value}" for name, value in os.environ.items() if name.startswith(VARIABLES)]
    inside = (
        "env",
        "-i",
        f"HOME=/{HOME}",
        "PATH=/usr/bin:/bin",
        *lent,
        "bash",
        "-c",
        f"cd /{HOME} && {command}",
    )
    apart = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", INSIDE, "bash")
    return require(*apart, root, f"{USER}:{USER}", *inside, deadline_seconds=seconds)


def install(row: Row, folder: Path) -> fresh.Installed:
    """Run `make demo` in such a Debian; Failed where it fails."""
    root = folder / "root"
    make(root, row.debian, f"{PACKAGES},{COMPILER}" if row.compiler else PACKAGES)
    fresh.last_commit(root / HOME / "mxtrain")
    (root / HOME / "work").mkdir()
    give(root / HOME)
    run(root, "cd mxtrain && make demo", fresh.MAKE_SECONDS)

    def python(*words: str) -> str:
        # Not beside the checkout: a folder called mxtrain hides what is installed.
        line = shlex.join([f"/{HOME}/mxtrain/.venv/bin/python", *words])
        return run(root, f"cd work && {line}", fresh.PART_SECONDS).output

    return fresh.Installed(python, f"/{HOME}/mxtrain")
