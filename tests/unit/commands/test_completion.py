"""Completion by TAB, in the shells themselves."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from mxtrain import config
from mxtrain.__main__ import COMMANDS, completion
from mxtrain.config.flags.completion import PATHS, WORDS
from tests.support.processes.shell import Shell

TIMEOUT_SECONDS = 60


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "digits.rec").touch()
    for shell in ("bash", "zsh", "fish"):
        (tmp_path / shell).write_text(completion(shell))
    return tmp_path


def test_bash_completes_commands_flags_values_and_files(folder: Path) -> None:
    with Shell("bash", "--norc", "-i", folder=folder) as shell:
        shell.type("source ./bash; echo re''ady\n", "ready")
        assert_completes(shell)


@pytest.mark.system
def test_zsh_completes_commands_flags_values_and_files(folder: Path) -> None:
    if not shutil.which("zsh"):
        pytest.skip("needs zsh")
    with Shell("zsh", "-f", "-i", folder=folder) as shell:
        shell.type("autoload -U compinit; compinit -u -D; source ./zsh; echo re''ady\n", "ready")
        assert_completes(shell)


def assert_completes(shell: Shell) -> None:
    """Type some of a command and a TAB, and look for the rest."""
    for typed, completed in (
        ("mxtrain ev", "mxtrain evaluate"),
        ("mxtrain fit --kv", "mxtrain fit --kvstore"),
        ("mxtrain fit --kvstore dev", "mxtrain fit --kvstore device"),
        ("mxtrain fit --kvstore=dev", "mxtrain fit --kvstore=device"),
        ("mxtrain fit --model resnet50_v1d_0.1", "mxtrain fit --model resnet50_v1d_0.11"),
        ("mxtrain fit --resume ne", "mxtrain fit --resume never"),
        ("mxtrain fit --resume dig", "mxtrain fit --resume digits.rec"),
        ("mxtrain fit --train dig", "mxtrain fit --train digits.rec"),
        ("mxtrain fit --lr dig", "mxtrain fit --lr dig"),
        ("mxtrain predict dig", "mxtrain predict digits.rec"),
        ("mxtrain pack --fr", "mxtrain pack --from"),
        ("mxtrain pack --from tfr", "mxtrain pack --from tfrecord"),
        ("mxtrain launch sch", "mxtrain launch scheduler"),
        ("mxtrain launch k8s --form pl", "mxtrain launch k8s --form plain"),
        ("mxtrain launch local -n 2 -- --optimizer ftm", "mxtrain launch local -n 2 -- --optimizer ftml"),
        ("mxtrain doctor --co", "mxtrain doctor --comm"),
    ):
        # Ctrl-A goes to the line's beginning, so that Enter prints what the line has become.
        shell.type(f"{typed}\t\x01echo \n", f"\n{completed}\r\n")


@pytest.mark.system
def test_fish_completes_commands_flags_values_and_files(folder: Path) -> None:
    if not shutil.which("fish"):
        pytest.skip("needs fish")

    def offered(typed: str) -> list[str]:
        done = subprocess.run(
            ["fish", "-c", f"source ./fish; complete -C '{typed}'"],
            cwd=folder,
            env={**os.environ, "HOME": str(folder)},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )
        assert not done.stderr
        return [line.split("\t")[0] for line in done.stdout.splitlines()]

    assert set(offered("mxtrain ")) == set(COMMANDS)
    assert offered("mxtrain fit --kv") == ["--kvstore"]
    assert set(offered("mxtrain fit --kvstore ")) == set(WORDS["kvstore"])
    assert "digits.rec" in offered("mxtrain fit --train ") and offered("mxtrain fit --lr ") == []
    assert set(offered("mxtrain launch k8s --form ")) == {"jobset", "plain"}
    assert "digits.rec" in offered("mxtrain predict ")


def test_each_word_flag_and_path_is_one_of_a_command(folder: Path) -> None:
    fields = {
        field.name: field for section in config.SECTIONS.values() for field in dataclasses.fields(section)
    }
    assert set(WORDS) <= {*fields, "tta", "masks_at", "checkpoint", "drop"}
    assert {*fields, "config", "checkpoint", "hosts", "folder", "python"} >= PATHS
    for name, field in fields.items():
        if name in WORDS and isinstance(field.default, str) and field.default:
            assert field.default.split("+")[0] in WORDS[name], name
    # A choice that --help spells out as words is completed.
    spelt_out = {name for name, field in fields.items() if " | " in field.metadata["help"]}
    assert spelt_out <= set(WORDS)
