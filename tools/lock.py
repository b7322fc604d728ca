"""Makes the lock files: for each Python the exact wheels that mxtrain is installed with, and their hashes.

    make lock PYTHONS="3.8 3.13 3.14"

Writes `locks/pythonVERSION-SET.txt`. The set `dev` is what `make env LOCKED=1` installs; `cpu` and `cu112` are for
images. uv resolves them for each Python, none of which has to be here, with the packages of PyPI alone, and pip says
which wheel it would install of each; nothing is installed. A lock names wheels of Linux on x86_64, all of them, so pip
is told --no-deps: MXNet's wheel asks for a NumPy that it does not need.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
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
NEWEST_GLIBC = 28  # 2.28, of 2018; a wheel for an older one loads there too
SECONDS = 1800


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("versions", nargs="+", metavar="VERSION", help="of a Python, such as 3.13")
    versions = parser.parse_args().versions
    with tempfile.TemporaryDirectory() as folder:
        tools = Path(folder, "bin")
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=SECONDS)
        run(tools / "python", "-m", "pip", "install", "--quiet", "--upgrade", "pip", "uv")
        for version in versions:
            for set_name, (extras, engine) in SETS.items():
                path = LOCKS / f"python{version}-{set_name}.txt"
                path.parent.mkdir(exist_ok=True)
                path.write_text(text(f"python{version}", locked(tools, version, extras, engine)))
                print(f"wrote {path}", flush=True)


def locked(tools: Path, version: str, extras: str, engine: str) -> dict[str, str]:
    """Return {"numpy==2.5.5": its SHA-256} for all that these extras and the engine come to with this Python."""
    found = resolved(tools, version, f"{CHECKOUT}[{extras}]", *IMPORTED, *BUILDERS)
    # The headless one loads everywhere, and has all that is used here.
    headless = [line.replace("opencv-python==", "opencv-python-headless==") for line in found]
    return wheels_of(tools, version, with_engine(headless, engine))


def with_engine(pins: list[str], engine: str) -> list[str]:
    """Return the wheels with those of an engine, which a newer Python's resolution leaves out."""
    names = {line.partition("==")[0] for line in pins}
    return [*pins, *(each for each in wheels.ENGINES[engine] if re.split("[=>]", each)[0] not in names)]


def resolved(tools: Path, version: str, *requirements: str) -> list[str]:
    """Return NAME==VERSION of all that these requirements come to."""
    with tempfile.TemporaryDirectory() as folder:
        wanted, pins = Path(folder, "wanted.in"), Path(folder, "pins.txt")
        wanted.write_text("\n".join([*requirements, ""]))
        line = [tools / "uv", "--no-config", "pip", "compile", "--quiet", wanted, "--output-file", pins]
        line += ["--python-version", version, "--python-platform", f"x86_64-manylinux_2_{NEWEST_GLIBC}"]
        line += ["--only-binary", ":all:", "--no-binary", "mxtrain"]
        run(*line, "--no-header", "--no-annotate")
        return [line for line in pins.read_text().splitlines() if "==" in line]


def wheels_of(tools: Path, version: str, requirements: list[str]) -> dict[str, str]:
    """Return which wheel pip would install of each, by its hash."""
    platforms = [f"--platform=manylinux_2_{minor}_x86_64" for minor in range(NEWEST_GLIBC, 4, -1)]
    # By their older names, of which one stands for those before it.
    platforms += ["--platform=manylinux2014_x86_64", "--platform=linux_x86_64"]
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        line = [tools / "python", "-m", "pip", "--isolated", "install", "--quiet", "--dry-run", "--no-deps"]
        line += ["--ignore-installed", "--only-binary", ":all:", "--python-version", version, *platforms]
        run(*line, "--report", report.name, *requirements)
        items = json.loads(Path(report.name).read_text())["install"]
    return {
        f"{canonical(item['metadata']['name'])}=={item['metadata']['version']}": item["download_info"][
            "archive_info"
        ]["hashes"]["sha256"]
        for item in items
    }


def run(*line: object) -> None:
    environment = {**os.environ, "PIP_CONFIG_FILE": os.devnull}
    subprocess.run([str(each) for each in line], env=environment, check=True, timeout=SECONDS)


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
