"""A Dockerfile without Docker: its instructions, and its steps carried out in a folder that is a root.

Knows the instructions and forms that ours have. A step runs under `chroot`, with this machine's network, and not under
a container's limits.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

STEP_SECONDS = 1200
# What a machine may need to reach the package indexes.
NETWORK_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf")
NETWORK_VARIABLES = re.compile(r"PIP_\w+|\w+_proxy|\w+_PROXY")
CERTIFICATES = "/var/tmp/certificates"  # pip's, where ca-certificates does not overwrite them
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Image(NamedTuple):
    """What a Dockerfile's last stage comes to."""

    root: Path
    environment: dict[str, str]
    folder: str
    user: str
    entrypoint: list[str]


def stages(dockerfile: Path) -> list[list[tuple[str, str]]]:
    """Return the instructions of each stage, FROM first; those before the first FROM are a stage of their own."""
    text = re.sub(r"^#.*\n", "", dockerfile.read_text(), flags=re.MULTILINE)
    found: list[list[tuple[str, str]]] = [[]]
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        if line.strip():
            word, _, rest = line.partition(" ")
            if word == "FROM":
                found.append([])
            found[-1].append((word, rest.strip()))
    return found


def build(dockerfile: Path, context: Path, base: Path, folder: Path, **arguments: str) -> Image:
    """Carry out all stages, each in a copy of the root `base`, and return the last one's image."""
    given = _arguments(stages(dockerfile)[0], {}, arguments)
    roots: dict[str, Path] = {}
    image = Image(base, {}, "/", "0", [])
    for number, instructions in enumerate(stages(dockerfile)[1:]):
        name = instructions[0][1].partition(" AS ")[2] or str(number)
        roots[name] = folder / name
        subprocess.run(["cp", "--archive", base, roots[name]], check=True, timeout=STEP_SECONDS)
        prepare(roots[name])
        known = _arguments(instructions, given, arguments)
        image = Image(
            roots[name],
            {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
            "/",
            "0",
            [],
        )
        for word, rest in instructions[1:]:
            image = _step(image, word, _expanded(rest, known) if word != "RUN" else rest, context, roots)
    return image


def run(image: Image, *words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Do what `docker run IMAGE words` does, with `folder` in the place of the image's own."""
    mounts = ["mount --rbind /dev $0/dev", "mount -t proc proc $0/proc"]
    if folder:
        mounts.append(f"mount --bind {folder} $0{image.folder}")
    line = [*image.entrypoint, *words]
    return _chroot(image, mounts, ["sh", "-c", f'cd {image.folder} && exec "$@"', "sh", *line])


def prepare(root: Path) -> None:
    """Let the programs in a root reach what this machine reaches."""
    for name in NETWORK_FILES:
        if Path(name).exists():
            (root / name[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(name, root / name[1:])
    if "PIP_CERT" in os.environ:
        shutil.copy(os.environ["PIP_CERT"], root / CERTIFICATES[1:])


def _arguments(
    instructions: list[tuple[str, str]], known: dict[str, str], given: dict[str, str]
) -> dict[str, str]:
    """Return the values of ARGs: the defaults, unless others are given."""
    defaults = dict(rest.split("=", 1) for word, rest in instructions if word == "ARG" and "=" in rest)
    return {**known, **{name: given.get(name, value) for name, value in defaults.items()}}


def _expanded(text: str, known: dict[str, str]) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda match: known[match[1]], text)


def _step(image: Image, word: str, rest: str, context: Path, roots: dict[str, Path]) -> Image:
    if word == "RUN":
        mounts = ["mount --rbind /dev $0/dev", "mount -t proc proc $0/proc"]
        done = _chroot(image._replace(user="0"), mounts, ["sh", "-c", f"cd {image.folder} && {rest}"])
        assert done.returncode == 0, done.stdout + done.stderr
    elif word == "COPY":
        _copy(image, rest, context, roots)
    elif word == "ENV":
        pairs = dict(pair.split("=", 1) for pair in rest.split())
        return image._replace(environment={**image.environment, **pairs})
    elif word == "WORKDIR":
        (image.root / rest[1:]).mkdir(parents=True, exist_ok=True)
        return image._replace(folder=rest)
    elif word == "USER":
        return image._replace(user=rest)
    elif word == "ENTRYPOINT":
        return image._replace(entrypoint=json.loads(rest))
    else:
        assert word in ("ARG", "CMD"), f"{word} is not known here"
    return image


def _copy(image: Image, rest: str, context: Path, roots: dict[str, Path]) -> None:
    *sources, target = rest.split()
    origin = context
    if sources[0].startswith("--from="):
        origin = roots[sources.pop(0).partition("=")[2]]
    for source in sources:
        found = origin / source.lstrip("/")
        place = image.root / os.path.join(image.folder, target).lstrip("/")
        if len(sources) > 1:
            place = place / found.name
        if found.is_dir():
            subprocess.run(["cp", "--archive", found, place], check=True, timeout=STEP_SECONDS)
        else:
            shutil.copy(found, place)


def _chroot(image: Image, mounts: list[str], line: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a program in a root; the mounts go away with its mount namespace."""
    chroot = 'exec chroot --userspec="$1:$1" "$0" "${@:2}"'
    network = {name: value for name, value in os.environ.items() if NETWORK_VARIABLES.fullmatch(name)}
    if "PIP_CERT" in network:
        network["PIP_CERT"] = CERTIFICATES
    script = "; ".join(["set -e", *mounts, chroot])
    return subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "bash", "-c", script, str(image.root), image.user, *line],
        env={**image.environment, **network, "HOME": "/tmp" if image.user != "0" else "/root"},
        capture_output=True,
        text=True,
        timeout=STEP_SECONDS,
    )
