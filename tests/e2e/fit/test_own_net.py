"""A net of the user's own in the other commands."""

from __future__ import annotations

from pathlib import Path

from tests.support.commands import Command
from tests.support.jobs.shapes_run import FLAGS


def test_all_commands_warn_in_the_same_words(shapes: Path, tmp_path: Path, command: Command) -> None:
    out, val = tmp_path / "run", shapes / "val.rec"
    flags = [
        *FLAGS,
        "--devices",
        "cpu",
        "--max-steps",
        "1",
        "--model",
        "tests.support.nets.user_net:logging_net",
        "--out",
        out,
    ]
    trained = command("mxtrain.fit", "--train", shapes / "train.rec", *flags)
    assert trained.returncode == 0, trained.stderr
    (warning,) = [line for line in trained.stderr.splitlines() if "imperatively" in line]
    picture = next((shapes / "images" / "dark").iterdir())
    for module, given in (("mxtrain.evaluate", ["--val", val]), ("mxtrain.predict", [picture])):
        done = command(module, "--run", out, *given)
        assert done.returncode == 0, done.stderr
        assert done.stderr.splitlines() == [warning]
