"""TensorBoard's own reader finds one curve of several attempts, with the restarts marked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mxtrain.report.sinks import writers
from tests.support.jobs.sinks import tensorboard

pytest.importorskip("tensorboardX")

WRITES = """
import resource, signal, sys
from pathlib import Path
from mxtrain.report.sinks import tensorboard
tensorboard.FLUSH_SECONDS = float(sys.argv[3])
sink = tensorboard.TensorBoard(Path(sys.argv[1]), last_step=2)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # EFBIG, as ENOSPC
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
try:
    for step in range(3, 3000):
        sink.write({"kind": "train", "step": step, "epoch": 1, "loss": 0.5, "applied": True})
except OSError as error:
    print(error.strerror)
sink.close()
"""


@pytest.mark.parametrize("flush_seconds", [0.0, 1000.0])
def test_a_full_disk_does_not_block_the_writer(tmp_path: Path, flush_seconds: float) -> None:
    line = [sys.executable, "-c", WRITES, str(tmp_path / "logs"), "20000", str(flush_seconds)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "File too large\n", "")


def write_attempt(out: Path, first: int, last: int) -> None:
    """Train from `first` to `last` and be killed there; the steps of the second attempt have other numbers."""
    run = writers.Logged(out, num_steps=10, sinks=("tensorboard",), step=first)
    report = writers.Report(run)
    for step in range(first + 1, last + 1):
        report.write({"kind": "train", "step": step, "epoch": 1, "loss": float(step), "load_seconds": 0.25})
        if step % 2 == 0:
            lengths = {"dense0_weight": 3.0}
            report.write({"kind": "layers", "step": step, "epoch": 1, "gradients": lengths})
    workers = [{"rank": 0, "host": "a", "load_seconds": 0.5}, {"rank": 1, "host": "b", "load_seconds": 1.5}]
    report.write({"kind": "workers", "step": last, "epoch": 1, "workers": workers})
    report.write({"kind": "system", "step": last, "epoch": 1, "host": "a", "cpu_percent": 50.0})
    report.event("checkpoint", "saved", last, 1)


def test_two_kills_from_one_checkpoint(tmp_path: Path) -> None:
    for last in (7, 6, 10):
        write_attempt(tmp_path, 0 if last == 7 else 4, last)
    found = tensorboard(tmp_path)
    steps = {name: [each.step for each in found.Scalars(name)] for name in found.Tags()["scalars"]}
    assert steps["train/loss"] == list(range(1, 11))
    assert [each.value for each in found.Scalars("train/loss")] == list(range(1, 11))
    assert steps["events/restart"] == [4, 4] and steps["events/start"] == [0]
    assert steps["layers/gradients/dense0_weight"] == [2, 4, 6, 8, 10]
    assert steps["train/load_seconds"] == steps["train/loss"]
    assert [each.value for each in found.Scalars("workers/1/load_seconds")] == [1.5]
    assert steps["system/a/cpu_percent"] == [10]
    texts = [each.tensor_proto.string_val[0].decode() for each in found.Tensors("events/text_summary")]
    begins, second, third = (text for text in texts if "checkpoint" not in text)
    assert begins == "**start**: the run begins, of 10 steps"
    assert second == "**restart**: attempt 2 goes on from step 4; 3 steps of the one before are done again"
    assert third == "**restart**: attempt 3 goes on from step 4; 2 steps of the one before are done again"
