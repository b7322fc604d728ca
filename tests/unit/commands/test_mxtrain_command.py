"""`python -m mxtrain`, which the installed command `mxtrain` is."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from mxtrain import __version__
from mxtrain.__main__ import COMMANDS, SHELLS, command, completion, help_text
from mxtrain.config.flags.completion import SHELLS as WRITTEN
from mxtrain.core import command_name
from mxtrain.core.errors import UsageError


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "give a command"),
        (["fitt"], "unknown command fitt; did you mean 'fit'"),
        (["--completion"], "give one of bash, zsh, fish"),
        (["--completion=tcsh"], "--completion tcsh"),
    ],
)
def test_what_is_no_command_is_refused(words: list[str], reason: str) -> None:
    with pytest.raises(UsageError, match=re.escape(reason)):
        command(words)


def test_help_names_every_command_and_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(COMMANDS) == set(re.findall(r"^  (\w+) {2,}", help_text(), re.MULTILINE))
    command(["--version"])
    assert capsys.readouterr().out == f"mxtrain {__version__}\n"
    assert set(SHELLS) == set(WRITTEN)
    command(["--completion", "bash"])
    assert capsys.readouterr().out == completion("bash")


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")  # they run in this process
@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_runs_by_its_name(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["mxtrain", name, "--help"])
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(command_name, "_typed", [])
    monkeypatch.setattr("mxtrain.core.interrupts.exit_on_signal", lambda program: None)
    with pytest.raises(SystemExit) as end:
        command([name, "--help"])
    assert end.value.code in (0, None)
    assert capsys.readouterr().out.startswith(f"usage: mxtrain {name} ")


def test_what_an_installed_command_runs_finds_modules_of_this_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_command.py").write_text("import sys\nprint(__name__, sys.argv[1:])\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["mxtrain", "fit", "--lr", "1"])
    monkeypatch.setattr(sys, "path", ["/nowhere", *sys.path])
    monkeypatch.setattr(command_name, "_typed", [])
    command_name.run("own_command", "mxtrain own", ["--lr", "1"])
    assert capsys.readouterr().out == "__main__ ['--lr', '1']\n"
    assert command_name.packer() == "mxtrain" and command_name.typed("") == "mxtrain own"
