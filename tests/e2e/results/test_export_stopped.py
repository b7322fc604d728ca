"""`mxtrain.export` that is stopped, killed, or cannot write: the export before stays, and nothing half-written.

The rules of the folder are held in small by tests/unit/export/test_target.py, by fast tests.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.commands import ROOT, Command

pytestmark = pytest.mark.slow
pytest.importorskip("onnxruntime")


@pytest.fixture
def run(trained_digits: Path, tmp_path: Path) -> Path:
    """A run folder of digits that has an export already."""
    folder = Path(shutil.copytree(trained_digits, tmp_path / "run"))
    (folder / "export" / "onnx").mkdir(parents=True)
    (folder / "export" / "onnx" / "export.json").write_text("{}")
    return folder


def content(run: Path) -> dict[str, int]:
    return {
        str(each.relative_to(run)): each.stat().st_size
        for each in (run / "export").rglob("*")
        if each.is_file()
    }


OLD = {"export/onnx/export.json": 2}


def stopped_by(number: int, run: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Send a signal to an export that is reading samples, and return how it ended."""
    line = [sys.executable, "-m", "mxtrain.export", str(run), "--to", "onnx"]
    note = tmp_path / "note"
    with subprocess.Popen(
        [*line, "--val", "tests.support.data.slow_samples:dataset"],
        cwd=ROOT,
        env={**os.environ, "NOTES": str(note)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = time.monotonic() + 60
        while not note.exists():
            assert process.poll() is None, process.stderr.read() if process.stderr else ""
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert (run / "export" / ".making-onnx").is_dir()
        process.send_signal(number)
        out, errors = process.communicate(timeout=30)
    return subprocess.CompletedProcess(line, process.returncode, out, errors)


@pytest.mark.parametrize(
    ("number", "code", "name"), [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")]
)
def test_a_stopped_export_leaves_the_one_before(
    number: int, code: int, name: str, run: Path, tmp_path: Path
) -> None:
    ended = stopped_by(number, run, tmp_path)
    assert (ended.returncode, ended.stderr.strip()) == (code, f"mxtrain.export: stopped by {name}")
    assert content(run) == OLD
    assert os.listdir(run / "export") == ["onnx"]


def test_what_a_kill_leaves_goes_with_the_next_export(run: Path, tmp_path: Path, command: Command) -> None:
    assert stopped_by(signal.SIGKILL, run, tmp_path).returncode == -signal.SIGKILL
    assert content(run) == OLD
    done = command("mxtrain.export", run, "--to", "onnx", "--json")
    assert done.returncode == 0, done.stderr
    assert sorted(json.loads(done.stdout)["files"]) == sorted(os.listdir(run / "export" / "onnx"))
    assert os.listdir(run / "export") == ["onnx"]


def test_a_full_disk_is_named(run: Path) -> None:
    words = (
        f"ulimit -f 64; exec {sys.executable} -m mxtrain.export {run} --to onnx"  # 64 KiB; the net is larger
    )
    ended = subprocess.run(["bash", "-c", words], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.strip() == (
        f"mxtrain.export: {run}/export/onnx: cannot be written (File too large); make room"
    )
    assert content(run) == OLD


def test_a_damaged_checkpoint_is_named(run: Path, command: Command) -> None:
    for weights in run.glob("checkpoints/*/weights.params"):
        whole = bytearray(weights.read_bytes())
        whole[len(whole) // 2] ^= 1
        weights.write_bytes(whole)
    done = command("mxtrain.export", run, "--to", "onnx")
    assert done.returncode == 3
    assert "weights.params: damaged, it is not what manifest.json says" in done.stderr.splitlines()[-1]
    assert content(run) == OLD


def test_samples_of_other_classes_are_refused(run: Path, shapes: Path, command: Command) -> None:
    done = command("mxtrain.export", run, "--to", "onnx", "--val", shapes / "val.rec")
    assert done.returncode == 3
    assert str(shapes / "val.rec") in done.stderr
    assert content(run) == OLD


def test_a_folder_that_is_no_folder_is_named(run: Path, command: Command) -> None:
    shutil.rmtree(run / "export")
    (run / "export").write_text("")
    done = command("mxtrain.export", run, "--to", "symbol")
    assert done.returncode == 2
    assert f"{run}/export: cannot be written" in done.stderr
    done = command("mxtrain.export", run, "--to", "onnx", "--out", run)
    assert done.returncode == 2
    assert f"--out {run}: holds other files than an export" in done.stderr
