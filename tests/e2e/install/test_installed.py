"""The packer by its names: in a checkout, from a wheel, and where a checkout is installed as it stands."""

from __future__ import annotations

import zipfile
from pathlib import Path

import cv2
import numpy as np
import pytest

from mxtrain import __version__
from tests.support.processes import installed
from tests.support.processes.installed import run


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    return installed.wheel(installed.source(folder / "source"), folder)


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed.environment(tmp_path_factory.mktemp("environment"), wheel)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's folder, with pictures and tools of the user's own."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "__init__.py").touch()
    for name in ("cat", "dog"):
        (tmp_path / "images" / name).mkdir(parents=True)
        assert cv2.imwrite(str(tmp_path / "images" / name / "1.jpg"), np.zeros((20, 20, 3), np.uint8))
    return tmp_path


def test_a_wheel_has_two_packages_and_no_sources_in_c(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"mxtrain", "im2rec_wrapper", "mxtrain-0.1.0.dist-info"}
    assert {"mxtrain/report/assets/page.html", "mxtrain/report/assets/main.js"} <= set(names)
    assert "mxtrain/launch/manifests/jobset.yaml" in names
    assert "mxtrain/data/sources/formats/tar.py" in names and not [
        name for name in names if name.endswith((".c", ".h"))
    ]


@pytest.mark.slow  # the installed commands are tried below
def test_the_installed_packer_works_beside_tools_of_the_users_own(programs: Path, folder: Path) -> None:
    for number, packer in enumerate(
        ([programs / "im2rec_wrapper"], [programs / "python", "-m", "im2rec_wrapper"])
    ):
        rec = folder / f"{number}.rec"
        done = run(*packer, "pack", "images", rec, folder=folder)
        assert done.returncode == 0 and rec.exists(), done.stderr
        typed = "im2rec_wrapper" if len(packer) == 1 else "python -m im2rec_wrapper"
        assert f"usage: {typed} pack " in run(*packer, "pack", "--help", folder=folder).stdout
        done = run(*packer, "pack", "images", folder=folder)
        assert (done.returncode, done.stderr) == (
            2,
            f"im2rec_wrapper: the following arguments are required: OUT (see {typed} pack --help)\n",
        )
        rec.with_suffix(".idx").unlink()
        assert f"rebuild it with `{typed} index {rec}`" in run(*packer, "check", rec, folder=folder).stdout


def test_the_installed_mxtrain_has_all_commands(programs: Path, folder: Path) -> None:
    """The packer, fit with code of the user's own beside it, the launchers, and advice in the same words."""
    mxtrain = programs / "mxtrain"
    assert run(mxtrain, "--version", folder=folder).stdout == f"mxtrain {__version__}\n"
    done = run(mxtrain, "pack", "images", "all.rec", folder=folder)
    assert done.returncode == 0 and (folder / "all.rec").exists(), done.stderr
    (folder / "own.py").write_text("def rate(): raise ValueError('was called')\n")
    flags = ["--train", "all.rec", "--schedule", "own:rate", "--plot-schedule", "rate.png"]
    done = run(mxtrain, "fit", *flags, folder=folder)
    assert done.returncode == 1 and "mxtrain.fit: --schedule own:rate" in done.stderr, done.stderr
    done = run(mxtrain, "fit", "--train", "none.rec", folder=folder)
    assert (done.returncode, done.stderr) == (
        3,
        "mxtrain.fit: none.rec does not exist: pack one with `mxtrain pack SOURCE OUT`\n",
    )
    job = [mxtrain, "launch", "k8s", "--image", "mxtrain:1", "-n", 2, "-s", 1, "--", "--train", "/data/a.rec"]
    assert "kind: JobSet" in run(*job, folder=folder).stdout
    done = run(mxtrain, "launch", "ssh", folder=folder)
    assert done.stderr.startswith("mxtrain launch ssh: ") and done.returncode == 2


# In small: the wheel above, and the commands of a checkout in all other tests.
@pytest.mark.slow
def test_an_installed_checkout_has_the_packer_by_both_names(tmp_path: Path, folder: Path) -> None:
    source = installed.source(tmp_path / "checkout")
    programs = installed.environment(tmp_path / "environment", "--editable", source)
    python = programs / "python"
    for name, place in (
        ("im2rec_wrapper", folder),
        ("im2rec_wrapper", source),
        ("tools.im2rec_wrapper", source),
    ):
        done = run(python, "-m", name, "pack", folder / "images", folder / "out.rec", folder=place)
        assert done.returncode == 0, done.stderr
        assert f"usage: python -m {name} " in run(python, "-m", name, "--help", folder=place).stdout
    assert run(programs / "im2rec_wrapper", "check", folder / "out.rec", folder=folder).returncode == 0
    for place in (folder, source):
        assert "--from" in run(programs / "mxtrain", "--completion", "bash", folder=place).stdout
        assert run(programs / "mxtrain", "check", folder / "out.rec", folder=place).returncode == 0
    done = run(python, "-m", "mxtrain.fit", "--train", "none.rec", folder=source)
    assert "python -m tools.im2rec_wrapper pack SOURCE OUT" in done.stderr
