"""A run that was named by relative paths is used and resumed from another folder."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.jobs.shapes_run import FLAGS
from tests.support.processes import warm_start

OWN = """
from helper_of_own import NUM_FEATURES
from mxtrain.runtime import mx

def make(num_classes):
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Conv2D(NUM_FEATURES, 3), mx.gluon.nn.GlobalAvgPool2D(), mx.gluon.nn.Dense(num_classes))
    return net

def loss(output, label):
    return -output.log_softmax(axis=1).pick(label, axis=1)
"""


def run(module: str, folder: Path, *arguments: Any) -> subprocess.CompletedProcess[str]:
    return warm_start.run(module, list(map(str, arguments)), folder, timeout=100)


def checked(module: str, folder: Path, *arguments: Any) -> subprocess.CompletedProcess[str]:
    done = run(module, folder, *arguments)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def project(shapes: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data and a module, in which a run was made in relative words."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(shapes, folder / "data")
    (folder / "nets_of_own.py").write_text(OWN)
    (folder / "helper_of_own.py").write_text("NUM_FEATURES = 8\n")
    flags = [*FLAGS, "--train", "data/train.rec", "--val", "data/val.rec", "--out", "runs/a", "--epochs", 1]
    checked("mxtrain.fit", folder, *flags, "--model", "nets_of_own:make", "--loss", "nets_of_own:loss")
    return folder


def test_evaluate_and_predict_find_the_data_and_the_module(project: Path, tmp_path: Path) -> None:
    out = project / "runs" / "a"
    here, there = (
        json.loads(checked("mxtrain.evaluate", folder, run, "--json").stdout)
        for folder, run in ((project, "runs/a"), (tmp_path, out))
    )
    (path,) = there.pop("checkpoints")
    assert path == str(project / here.pop("checkpoints")[0]) and there == here
    picture = next((project / "data" / "images" / "dark").iterdir())
    assert "dark" in checked("mxtrain.predict", tmp_path, "--run", out, picture).stdout


def test_the_config_file_means_the_same_elsewhere(project: Path, tmp_path: Path) -> None:
    out = project / "runs" / "a"
    flags = ["--config", out / "config.yaml", "--model", "small_cnn", "--loss", "cross_entropy"]
    done = checked("mxtrain.fit", tmp_path, *flags, "--out", "b", "--max-steps", 1)
    assert f"{project}/data/train.rec: 64 samples" in done.stderr


def test_relative_and_whole_paths_are_the_same_run(project: Path, tmp_path: Path) -> None:
    shutil.copytree(project / "runs" / "a", project / "runs" / "again")
    own = [*FLAGS, "--model", "nets_of_own:make", "--loss", "nets_of_own:loss", "--schedule", "cosine"]
    data = ["--train", project / "data" / "train.rec", "--val", project / "data" / "val.rec"]
    done = checked("mxtrain.fit", project, *own, *data, "--out", project / "runs" / "again", "--epochs", 1)
    assert "scores up to" not in done.stderr
    (newest,) = sorted((project / "runs" / "again" / "checkpoints").glob("step-*"))[-1:]
    kept = json.loads((newest / "state.json").read_text())
    assert kept["config"]["train"] == f"{project}/data/train.rec"
    assert kept["modules"] == {"nets_of_own": str(project)}


def test_a_teacher_brings_its_module(project: Path, tmp_path: Path) -> None:
    flags = [*FLAGS, "--train", project / "data" / "train.rec", "--out", "b", "--max-steps", 1]
    checked("mxtrain.fit", tmp_path, *flags, "--teacher", project / "runs" / "a")


def test_where_the_data_have_moved_evaluate_says_to_give_them(project: Path, tmp_path: Path) -> None:
    data, out = project / "data", project / "runs" / "a"
    data.rename(project / "moved")
    try:
        done = run("mxtrain.evaluate", project, "--run", out)
        assert done.returncode == 3 and len(done.stderr.splitlines()) == 1
        assert (
            f"{data}/val.rec does not exist" in done.stderr and "if that has moved, give --val" in done.stderr
        )
        checked("mxtrain.evaluate", project, "--run", out, "--val", "moved/val.rec")
        done = run("mxtrain.evaluate", project, "--run", out, "--val", "gone.rec")
        assert "gone.rec does not exist" in done.stderr and "the run's own" not in done.stderr
    finally:
        (project / "moved").rename(data)


def test_a_module_that_has_gone_is_one_line(project: Path, tmp_path: Path) -> None:
    gone = project / "nets_of_own.py"
    gone.rename(tmp_path / "kept")
    try:
        done = run("mxtrain.predict", tmp_path, "--run", project / "runs" / "a", tmp_path / "kept")
    finally:
        (tmp_path / "kept").rename(gone)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert f"nets_of_own:make from a module in {project}, which has it no more" in done.stderr
