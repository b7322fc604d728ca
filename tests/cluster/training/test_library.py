"""A user's program that calls `fit(...)`, over a cluster: the same file in every role."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.commands import ROOT, Command

PROGRAM = str(ROOT / "tests" / "support" / "user_code" / "library_program.py")


def said(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text[text.index("{") :])
    return found


def test_a_program_over_two_workers_computes_the_bits_of_one_process(
    tmp_path: Path, command: Command
) -> None:
    alone = command("mxtrain.fit", PROGRAM, tmp_path / "alone", "device", 1)
    assert alone.returncode == 0, alone.stderr
    flags = ["--kvstore", "dist_sync", "--num-workers", 2, "--out", tmp_path / "job", "--start-timeout", 40]
    job = command("mxtrain.fit", *flags, PROGRAM, tmp_path / "job", "dist_sync", 2)
    assert job.returncode == 0, job.stdout + job.stderr
    logs = {path.stem: path.read_text() for path in (tmp_path / "job" / "logs").glob("*-*.log")}
    one, *of_job = said(alone.stdout), said(logs["worker-0"]), said(logs["worker-1"])
    assert [each["curve"] for each in of_job] == [one["curve"]] * 2 and len(one["curve"]) == 10
    assert [each["scores"] for each in of_job] == [one["scores"]] * 2
    assert [each["calls"] for each in (one, *of_job)] == [8, 8, 0]  # one of the workers has hooks
    assert "{" not in logs["server-0"]  # a server does not come back from `fit`


def test_a_program_that_nobody_started_over_a_cluster_says_how_to(tmp_path: Path, command: Command) -> None:
    done = command("mxtrain.fit", PROGRAM, tmp_path, "dist_sync", 2)
    assert done.returncode == 2
    line = f"mxtrain.fit --kvstore dist_sync --num-workers 2 --num-servers 1 --out {tmp_path} library_program.py\n"
    assert done.stderr.endswith(line)
