"""Runs with --hold layers, as a user types them: the files and the curve of the run that holds all, and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mxtrain.config import Run
from mxtrain.fit import fit
from mxtrain.runtime import mx
from tests.support.commands import Command
from tests.support.jobs.shapes_run import curve
from tests.support.runs import assert_same_checkpoint, kill_at
from tests.tasks.data import steps

FLAGS = "--task lm --model gpt:layers=2,heads=2,width=16,dropout=0.1 --window 16 --optimizer adam --lr 0.01"
FLAGS += " --batch-size 16 --micro-batch 4 --checkpoint-steps 5 --log none --threads 1"
ALL, LAYERS = ["--remat"], ["--hold", "layers"]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    steps.write(folder, 96, 16)
    return folder


def flags(texts: Path, out: Path) -> list[str]:
    data = ["--train", str(texts / "train.rec"), "--val", str(texts / "val.rec"), "--out", str(out)]
    return [*data, *FLAGS.split(), "--epochs", "2"]


@pytest.mark.slow  # in small: tests/engine/train/held/test_held_checkpoints.py
def test_layers_and_all_are_one_run(texts: Path, tmp_path: Path, command: Command) -> None:
    """Also where one of them goes on from the other's checkpoint; what becomes of either's is the same too."""
    for name, first, then in (
        ("all", ALL, ALL),
        ("layers", LAYERS, LAYERS),
        ("to-layers", ALL, LAYERS),
        ("to-all", LAYERS, ALL),
    ):
        out = tmp_path / name
        if first != then:
            kill_at(8, tmp_path / f"{name}.log", *flags(texts, out), *first)
        done = command("mxtrain.fit", *flags(texts, out), *then)
        assert done.returncode == 0, done.stderr
        assert curve(out) == curve(tmp_path / "all")
        assert_same_checkpoint(out, tmp_path / "all")
    for module, *words in (
        ("mxtrain.evaluate", "--json"),
        ("mxtrain.predict", "--prompt", "3a", "--max-tokens", "9", "--json"),
    ):
        told = [command(module, "--run", tmp_path / name, *words) for name in ("layers", "all")]
        assert told[0].returncode == 0, told[0].stderr
        assert told[0].stdout.replace("/layers", "/all") == told[1].stdout
    for name in ("layers", "all"):
        done = command(
            "mxtrain.export",
            "--run",
            tmp_path / name,
            "--to",
            "symbol",
            "--out",
            tmp_path / f"{name}-exported",
        )
        assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "all-exported").glob("*.params")
    assert (tmp_path / "layers-exported" / path.name).read_bytes() == path.read_bytes()


@pytest.mark.slow  # what is refused without a cluster: tests/unit/config/checks/test_hold_checks.py
def test_a_program_gets_a_net_that_answers_layer_by_layer(texts: Path, tmp_path: Path) -> None:
    description = {"model": "gpt:layers=2,heads=2,width=16", "window": 16, "batch_size": 16, "epochs": 1}
    given = {"task": "lm", "train": str(texts / "train.rec"), "log": "none", "threads": 1, **description}
    held, whole = (fit(Run.of(**given, out=str(tmp_path / hold), hold=hold)) for hold in ("layers", "all"))
    tokens = mx.nd.array(np.arange(16)[np.newaxis])
    np.testing.assert_array_equal(held.net(tokens).asnumpy(), whole.net(tokens).asnumpy())
