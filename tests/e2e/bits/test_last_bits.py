"""Where last bits must differ it is said before the first step, in the terminal and in the run's log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.commands import Command
from tests.support.jobs.shapes_run import flags

SAID = ("not exactly (--sums fast)", "was begun with --sums fast", "was computed with ")


def said(stderr: str) -> list[str]:
    """Which of the lines there are, each of them before the first step."""
    lines = stderr.splitlines()
    first_step = next(number for number, line in enumerate(lines) if " step " in line and "loss" in line)
    assert not any(words in line for words in SAID for line in lines[first_step:])
    return [words for words in SAID for line in lines[:first_step] if words in line]


def test_a_run_says_where_its_bits_will_differ(
    shapes: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Begun with --sums fast, gone on with by a command that does not ask for it, on one thread more."""
    out, threads = tmp_path / "run", int(os.environ["OMP_NUM_THREADS"])
    begin = (["--sums", "fast", "--max-steps", "1"], threads, SAID[:1])
    go_on = (["--max-steps", "2"], threads + 1, SAID)
    for more, now, expected in (begin, go_on):
        monkeypatch.setenv("OMP_NUM_THREADS", str(now))
        run = [*flags(shapes, out), "--schedule", "constant", "--log", "console", *more]
        done = command("mxtrain.fit", *run)
        assert done.returncode == 0, done.stderr
        assert sorted(said(done.stderr)) == sorted(expected), done.stderr
    assert (
        f" OpenMP threads: the curve goes on, to other last bits; --threads {threads} keeps them"
        in done.stderr
    )
    log = (out / "logs" / "fit.log").read_text()
    assert all(words in log for words in SAID)


def test_a_dry_run_says_so_too_and_exact_sums_are_not_worth_a_line(
    shapes: Path, tmp_path: Path, command: Command
) -> None:
    for more, is_said in ((["--sums", "fast"], True), ([], False)):
        done = command("mxtrain.fit", *flags(shapes, tmp_path / "run"), "--dry-run", *more)
        assert done.returncode == 0, done.stderr
        assert (SAID[0] in done.stderr) == is_said
        assert (not done.stderr) == (not is_said)
