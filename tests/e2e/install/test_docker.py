"""docker/Dockerfile: what it promises, and an image by its steps. Nothing here runs Docker."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tests.support.data.pictures import jpeg, picture
from tests.support.hosts import dockerfile
from tests.support.processes import installed

DOCKERFILE = ROOT / "docker" / "Dockerfile"
ROOT_SECONDS = 600


def test_it_is_pinned_small_and_not_root() -> None:
    arguments, build, last = dockerfile.stages(DOCKERFILE)
    (base,) = [rest for word, rest in arguments if word == "ARG"]
    assert re.fullmatch(r"BASE=debian:trixie-20\d{6}-slim(@sha256:[0-9a-f]{64})?", base), (
        "a day's Debian 13, no CUDA"
    )
    assert build[0] == ("FROM", "${BASE} AS build") and last[0] == ("FROM", "${BASE}")
    runs = [rest for word, rest in (*build, *last) if word == "RUN"]
    for step in runs:
        if "apt-get install" in step:
            assert "--no-install-recommends" in step and step.count("rm -rf /var/lib/apt/lists/*") == 1
        if "pip install" in step:
            assert "--no-cache-dir" in step and "--no-deps" in step
            assert "--require-hashes" in step or "--no-build-isolation" in step
    assert not [step for word, step in last if word == "RUN" and "gcc" in step], "the compiler stays behind"
    assert dict(last)["USER"] not in ("0", "root") and json.loads(dict(last)["ENTRYPOINT"]) == ["mxtrain"]


def test_what_it_copies_is_here_and_reaches_the_builder() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    reaching = {line[1:] for line in ignored if line.startswith("!")}
    assert "*" in ignored
    for word, rest in dockerfile.stages(DOCKERFILE)[1]:
        for source in rest.split()[:-1] if word == "COPY" else ():
            for engine in ("cpu", "cu112"):
                path = source.replace("${ENGINE}", engine)
                assert (ROOT / path).exists() and path.split("/")[0] in reaching, path


# In small: the two above, and the lock that make env LOCKED=1 installs.
@pytest.mark.slow
@pytest.mark.system
@pytest.mark.timeout(5 * ROOT_SECONDS)
def test_its_steps_make_an_image_that_trains(tmp_path: Path) -> None:
    if os.geteuid() != 0 or not shutil.which("mmdebstrap"):
        pytest.skip("needs root and mmdebstrap")
    base = tmp_path / "base"
    line = ["mmdebstrap", "--quiet", "--variant=minbase", "trixie", str(base)]
    subprocess.run(line, check=True, timeout=ROOT_SECONDS)
    image = dockerfile.build(DOCKERFILE, installed.source(tmp_path / "context"), base, tmp_path)
    work = tmp_path / "work"
    for name in ("cat", "dog"):
        (work / "images" / name).mkdir(parents=True)
        for seed in range(8):
            (work / "images" / name / f"{seed}.jpg").write_bytes(jpeg(picture(seed)))
    os.chown(work, 1000, 1000)

    def mxtrain(*words: str) -> str:
        done = dockerfile.run(image, *words, folder=work)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert mxtrain("doctor", "--json").count('"trainable": true') == 1
    mxtrain("pack", "images", "all.rec")
    small = ["--model", "small_cnn", "--image-size", "28", "--batch-size", "4", "--max-steps", "2"]
    assert "done" in mxtrain("fit", "--train", "all.rec", *small, "--out", "run")
    environment = json.loads((work / "run" / "environment.json").read_text())
    assert environment["lock"] and environment["distributions"]["opencv-python-headless"]
    assert (work / "run").stat().st_uid == 1000
