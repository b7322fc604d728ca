"""`launch/ssh`: refusals before anything starts, and the command that starts the host agent."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from mxtrain.core.errors import UsageError
from mxtrain.launch import ssh
from mxtrain.launch.hosts import Host

FLAGS = ("--train", "t.rec", "--kvstore", "dist_sync", "--num-workers", "3", "--num-servers", "2")
TOKEN = "d6f1a0"
ROOT = Path(__file__).resolve().parents[3]


def test_a_missing_host_file_is_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--hosts .*nowhere: No such file"):
        ssh.launch(["--hosts", str(tmp_path / "nowhere")], FLAGS)
    (tmp_path / "picture").write_bytes(b"\xff\xd8")
    with pytest.raises(UsageError, match=r"--hosts .*picture: it is no UTF-8"):
        ssh.launch(["--hosts", str(tmp_path / "picture")], FLAGS)


def test_a_variable_has_a_name_and_a_value(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("a slots=3\n")
    with pytest.raises(UsageError, match="'HOME' sets nothing; give NAME=VALUE"):
        ssh.launch(["--hosts", str(tmp_path / "hosts"), "--env", "HOME"], FLAGS)


def test_more_workers_than_slots_are_refused(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("a\nb\n")
    with pytest.raises(UsageError, match="--num-workers 3 on hosts with 2 slots"):
        ssh.launch(["--hosts", str(tmp_path / "hosts")], FLAGS)


def test_the_remote_command_survives_the_remote_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "with blanks; and $signs"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", "/some where")
    said = folder / "python"
    said.write_text('#!/bin/sh\necho "$PWD|$PYTHONPATH|$*"\n')
    said.chmod(0o755)
    line = ssh.agent_command(["ssh", "-T"], Host("me@node"), str(said), str(folder))
    assert line[:3] == ["ssh", "-T", "me@node"]
    done = subprocess.run(["sh", "-c", *line[3:]], capture_output=True, text=True, timeout=20)
    assert done.stdout == f"{folder}|/some where|-m mxtrain.launch host-agent\n"
