"""fit's --help: short, whole, or about a word."""

from __future__ import annotations

import dataclasses
import re

import pytest

from mxtrain import config
from mxtrain.config.flags import flag_help
from mxtrain.core.errors import UsageError
from tests.support.processes import fresh_python

FIELDS = [field for section in config.SECTIONS.values() for field in dataclasses.fields(section)]


@pytest.fixture(autouse=True)
def of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    with pytest.raises(SystemExit) as end:
        config.parse(words)
    assert end.value.code == 0
    return capsys.readouterr().out


def flags_in(text: str) -> set[str]:
    return set(re.findall(r"^  (--[\w-]+)", text, re.M))


def test_it_is_short_and_says_how_to_see_the_rest(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "--help")
    assert text.startswith("usage: python -m mxtrain.fit ") and len(text.splitlines()) < 75
    assert {name[2:].replace("-", "_") for name in flags_in(text)} == flag_help.OF_MOST_RUNS
    assert f"--help all lists all {len(config.flag_names())} flags" in text
    assert text == printed(capsys, "-h") == printed(capsys, "--lr", "1", "--help", "--epochs", "3")


def test_all_of_it_has_every_flag_with_all_that_it_means(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "--help", "all")
    assert flags_in(text) == set(config.flag_names()) and text == printed(capsys, "--help=all")
    words = " ".join(text.split()).replace(" ", "").replace("-", "")  # argparse breaks lines at hyphens too
    for field in FIELDS:
        assert field.metadata["help"].replace(" ", "").replace("-", "") in words, field.name
        if field.default not in (None, "", False):
            assert f"(default:{field.default})".replace(" ", "").replace("-", "") in words, field.name


def test_a_word_finds_the_flags_that_have_it_in_their_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert flags_in(printed(capsys, "--help", "bad")) == {"--skip-bad", "--max-bad-steps"}
    assert flags_in(printed(capsys, "--help", "batch-size")) == {"--batch-size"}
    with pytest.raises(UsageError, match="--help augmnt: no flag is called so; did you mean '--augment'"):
        config.parse(["--help", "augmnt"])


def test_it_loads_no_more_than_it_takes() -> None:
    code = (
        "import contextlib, io, sys\n"
        "from mxtrain.fit import command\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):\n"
        "    command(['--help', 'all'])\n"
        "answer = sorted({'mxnet', 'yaml'} & set(sys.modules))"
    )
    assert fresh_python.answer(code) == []
