"""What is wrong is said in one line with the right exit code, whatever is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Callable

import pytest

from mxtrain import fit
from mxtrain.core.errors import DATA, USAGE, one_line
from mxtrain.core.system import gpus
from tests.support.commands import ROOT, Command

Refused = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def refused(capfd: pytest.CaptureFixture[str]) -> Refused:
    """`mxtrain.fit` in this process, as what is refused before mxnet loads needs none of its own."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        code = one_line("mxtrain.fit", lambda: fit.command([*map(str, arguments)]))
        return subprocess.CompletedProcess([], code, *capfd.readouterr())

    return run


def assert_refused(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    for word in words:
        assert word in done.stderr


def test_a_missing_rec(command: Command, tmp_path: Path) -> None:
    done = command("mxtrain.fit", "--train", tmp_path / "missing.rec", "--out", tmp_path / "run")
    assert_refused(done, DATA, "missing.rec")


def test_a_missing_rec_with_a_near_one(refused: Refused, shapes: Path, tmp_path: Path) -> None:
    done = refused("--train", shapes / "trian.rec", "--out", tmp_path / "run")
    assert_refused(done, DATA, "trian.rec", "train.rec")


def test_an_empty_rec(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "empty.rec").write_bytes(b"")
    done = refused("--train", tmp_path / "empty.rec", "--out", tmp_path / "run")
    assert_refused(done, DATA, "empty.rec", "empty")


def test_a_rec_that_is_text(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "text.rec").write_text("0\timages/cat.jpg\n" * 100)
    done = refused("--train", tmp_path / "text.rec", "--out", tmp_path / "run")
    assert_refused(done, DATA, "text.rec", "text")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--model resnet18_v1bb", ["--model resnet18_v1bb", "resnet18_v1b"]),
        ("--batch-size 0", ["--batch-size 0"]),
        ("--amp fp16", ["--amp fp16", "bf16"]),
        ("--kvstore horovod", ["--kvstore horovod"]),
        ("--kvstore dist_sync --num-workers 2 --min-workers 3", ["--min-workers 3"]),
        ("--no-such-flag", ["--no-such-flag"]),
        ("--devices cpu:x", ["--devices cpu:x"]),
    ],
)
def test_wrong_flags(refused: Refused, shapes: Path, tmp_path: Path, flags: str, words: list[str]) -> None:
    out = tmp_path / "run"
    done = refused("--train", shapes / "train.rec", "--out", out, *flags.split())
    assert_refused(done, USAGE, *words)
    assert not out.exists()


@pytest.mark.skipif(gpus.problem(0) is None, reason="this machine has a GPU")
def test_a_gpu_that_is_not_there(refused: Refused, shapes: Path, tmp_path: Path) -> None:
    done = refused("--train", shapes / "train.rec", "--out", tmp_path / "r", "--devices", "gpu:0")
    assert_refused(done, USAGE, "--devices gpu:0")


def test_an_out_that_cannot_be_written(refused: Refused, shapes: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = refused("--train", shapes / "train.rec", "--out", tmp_path / "file" / "run")
    assert_refused(done, USAGE, "--out", "file/run")


@pytest.mark.skipif(os.geteuid() == 0, reason="permission bits do not bind root")
def test_an_out_without_permission(refused: Refused, shapes: Path, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    done = refused("--train", shapes / "train.rec", "--out", tmp_path / "run")
    assert_refused(done, USAGE, "--out", "Permission denied")


def test_a_label_out_of_range(refused: Refused, shapes: Path, tmp_path: Path) -> None:
    done = refused("--train", shapes / "train.rec", "--out", tmp_path / "run", "--num-classes", "1")
    assert_refused(done, DATA, "train.rec", "--num-classes")


def test_a_picture_size_the_net_does_not_take(command: Command, shapes: Path, tmp_path: Path) -> None:
    flags = [
        "--train",
        shapes / "train.rec",
        "--out",
        tmp_path / "run",
        "--image-size",
        "8",
        "--model",
        "alexnet",
    ]
    done = command("mxtrain.fit", *flags)
    assert done.returncode == USAGE and "Traceback" not in done.stderr
    assert "--image-size 8" in done.stderr.splitlines()[-1]


def test_a_run_that_is_none(command: Command, shapes: Path, tmp_path: Path) -> None:
    done = command("mxtrain.evaluate", "--run", tmp_path, "--val", shapes / "val.rec")
    assert_refused(done, USAGE, str(tmp_path), "checkpoints/")


def test_the_same_without_mxnet(shapes: Path, tmp_path: Path) -> None:
    """Refusals come before the engine: they need no mxnet at all."""
    code = (
        "import sys; sys.modules['mxnet'] = None; sys.modules['gluoncv'] = None\n"
        "from mxtrain import fit\n"
        f"raise SystemExit(fit.main(['--train', {str(shapes / 'train.rec')!r}, '--model', 'resnet81_v1']))"
    )
    line = [sys.executable, "-c", code]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert_refused(done, USAGE, "resnet18_v1")
