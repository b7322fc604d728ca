"""A Python program after the flags of fit."""

from __future__ import annotations

import argparse

import pytest

from mxtrain.config.flags import program
from mxtrain.launch import fit_flags


def test_flags_end_where_a_program_begins() -> None:
    assert program.split(["--out", "a", "train.py", "--lr", "b.py"]) == (
        ("--out", "a"),
        ("train.py", "--lr", "b.py"),
    )
    assert program.split(["--train", "a.rec"]) == (("--train", "a.rec"), ())


@pytest.mark.parametrize(
    ("words", "num_flags"),
    [
        ("--train a.py", 2),
        ("--train a.py --out b.py train.py --lr 1", 4),
        ("--train=a.py train.py", 1),
        ("--remat train.py", 1),
        ("--remat false train.py", 2),
        ("--print-config train.py", 1),
        ("--lr -1 train.py", 2),
        ("--train", 1),
    ],
)
def test_the_value_of_a_flag_is_no_program(words: str, num_flags: int) -> None:
    flags, own_program = program.split(words.split())
    assert len(flags) == num_flags and [*flags, *own_program] == words.split()


def test_a_launcher_puts_its_flags_before_the_program() -> None:
    asked = argparse.Namespace(num_workers=3, num_servers=None)
    words = fit_flags.with_counts(asked, ["--out", "a", "train.py", "1"])
    assert words == ("--out", "a", "--num-workers", "3", "train.py", "1")
    run, words = fit_flags.parse_fit_flags(words, "launch")
    assert words[-4:] == ("--kvstore", "dist_sync", "train.py", "1")
    assert (run.layout.kvstore, run.layout.num_workers, run.output.out) == ("dist_sync", 3, "a")
    fit_flags.check(run, words)  # which would miss --train without the program
