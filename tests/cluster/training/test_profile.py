"""`--profile` of whole commands: with other nets, devices and workers, and through kills.

In small, in one process: tests/engine/train/telemetry/test_profile.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mxtrain.core.system import kernels
from tests.support.commands import Command
from tests.support.runs import curve, kill_at, records

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

FLAGS = (
    "--image-size 8 --val-resize 8 --augment none --batch-size 32 --micro-batch 8 --max-steps 8 --threads 1"
)
PICTURES = "--model small_resnet"
KINDS = {
    "devices": f"{PICTURES} --devices cpu:0,1",
    "recomputed": f"{PICTURES} --remat",
    "clipped, averaged": f"{PICTURES} --clip-norm 1 --ema 0.9",
    "two workers": "--model small_cnn --kvstore dist_sync --num-workers 2",
    **({} if kernels.bf16_problem() else {"bfloat16": f"{PICTURES} --amp bf16"}),
}


def flags(digits: Path, out: Path, *more: str) -> list[str]:
    return [*("--train", str(digits / "train.rec"), "--out", str(out)), *FLAGS.split(), *more]


def operators(out: Path) -> list[Any]:
    trace = json.loads((out / "logs" / "profile.json").read_text())
    return [each for each in trace["traceEvents"] if each["ph"] == "X" and each["cat"] == "operator"]


@pytest.mark.parametrize("kind", KINDS)
def test_no_bit_moves(kind: str, digits: Path, tmp_path: Path, command: Command) -> None:
    for name, more in (("plain", []), ("profiled", ["--profile", "3:6"])):
        done = command("mxtrain.fit", *flags(digits, tmp_path / name, *KINDS[kind].split(), *more))
        assert done.returncode == 0, done.stderr
    assert len(curve(tmp_path / "plain")) >= 8
    assert curve(tmp_path / "profiled") == curve(tmp_path / "plain")
    found = operators(tmp_path / "profiled")
    products = [each for each in found if "Convolution" in each["name"]]
    assert products and all("layer" in each.get("args", {}) for each in products) == (kind != "recomputed")
    assert ("steps 3 to 6 profiled" in done.stderr + done.stdout) and "first: " in done.stderr + done.stdout
    assert len([each for each in records(tmp_path / "profiled", "event") if each["event"] == "profile"]) == 1


def test_a_kill_within_the_steps_leaves_none_and_the_resumed_run_the_rest(
    digits: Path, tmp_path: Path, command: Command
) -> None:
    more = ["--model", "small_cnn", "--checkpoint-steps", "3", "--profile", "3:6"]
    kill_at(5, tmp_path / "log", *flags(digits, tmp_path / "killed", *more))
    assert not (tmp_path / "killed" / "logs" / "profile.json").exists()
    done = command("mxtrain.fit", *flags(digits, tmp_path / "killed", *more))
    assert done.returncode == 0, done.stderr
    assert "steps 4 to 6 profiled" in done.stderr
    assert operators(tmp_path / "killed")
    done = command("mxtrain.fit", *flags(digits, tmp_path / "plain", *more[:4]))
    assert done.returncode == 0, done.stderr
    assert curve(tmp_path / "killed") == curve(tmp_path / "plain")
