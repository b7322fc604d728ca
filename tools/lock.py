"""Makes the lock files: for each Python the exact wheels that mxtrain is installed with, and their hashes.

    make lock PYTHONS="python3.8 python3.13 python3.14"

Writes `locks/PYTHON-SET.txt`. The set `dev` is what `make env LOCKED=1` installs; `cpu` and `cu112` are for images. pip
resolves them with the packages of PyPI alone and downloads no more than it has to; nothing is installed. A lock names
wheels of Linux on x86_64, all of them, so pip is told --no-deps: MXNet's wheel asks for a NumPy that it does not need.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

from mxtrain.core.system import wheels
from mxtrain.doctor.machine.install import IMPORTED

CHECKOUT = Path(__file__).resolve().parents[1]
LOCKS = CHECKOUT / "locks"
# Each set's extras, and its engine.
SETS = {"dev": ("cpu,dev", "cpu"), "cpu": ("cpu", "cpu"), "cu112": ("cu112", "cu112")}
# pip and setuptools build the checkout with no other.
BUILDERS = ("pip", "setuptools>=70.1")
PIP_SECONDS = 1800


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pythons", nargs="+", metavar="PYTHON", help="such as python3.13")
    for python in parser.parse_args().pythons:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([python, "-m", "venv", folder], check=True, timeout=PIP_SECONDS)
            inner = str(Path(folder, "bin", "python"))
            subprocess.run([inner, "-m", "pip", "install", "--quiet", "--upgrade", "pip"], check=True)
            name = f"python{version_of(inner)}"
            for set_name in SETS:
                path = LOCKS / f"{name}-{set_name}.txt"
                path.parent.mkdir(exist_ok=True)
                path.write_text(text(name, locked(inner, *SETS[set_name])))
                print(f"wrote {path}", flush=True)


def version_of(python: str) -> str:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def locked(python: str, extras: str, engine: str) -> dict[str, str]:
    """Return {"numpy==2.5.5": its SHA-256} for all that these extras and the engine come to with this Python."""
    found = resolved(python, f"{CHECKOUT}[{extras}]", *IMPORTED, *BUILDERS)
    # The headless one loads everywhere, and has all that is used here.
    versions = dict(requirement.split("==") for requirement in found)
    opencv = f"opencv-python-headless=={versions['opencv-python']}"
    without_opencv = {name: value for name, value in found.items() if not name.startswith("opencv-python==")}
    return {**without_opencv, **resolved(python, "--no-deps", *wheels.ENGINES[engine], opencv)}


def resolved(python: str, *requirements: str) -> dict[str, str]:
    """Return what pip would install, with the hash of each file."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        line = [python, "-m", "pip", "--isolated", "install", "--quiet", "--dry-run", "--ignore-installed"]
        line += ["--only-binary", ":all:", "--report", report.name, *requirements]
        subprocess.run(
            line, env={**os.environ, "PIP_CONFIG_FILE": os.devnull}, check=True, timeout=PIP_SECONDS
        )
        items = json.loads(Path(report.name).read_text())["install"]
    return {
        f"{canonical(item['metadata']['name'])}=={item['metadata']['version']}": item["download_info"][
            "archive_info"
        ]["hashes"]["sha256"]
        for item in items
        if "archive_info" in item["download_info"]  # all but the checkout
    }


def canonical(name: str) -> str:
    """Return a package's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def text(name: str, hashes: dict[str, str]) -> str:
    """Return a lock file."""
    lines = [f"{requirement} --hash=sha256:{value}" for requirement, value in sorted(hashes.items())]
    head = f"# {name} on Linux, x86_64; made by `make lock`, installed with --no-deps --require-hashes."
    return "\n".join([head, *lines, ""])


if __name__ == "__main__":
    main()
