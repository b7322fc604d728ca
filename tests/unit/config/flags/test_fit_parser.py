"""The parser of fit's flags reads each of them, and leaves out those that are not given."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import pytest

from mxtrain import config
from mxtrain.config.flags import fit_parser
from mxtrain.core.errors import UsageError

VALUES = {"bool": ("yes", True), "int": ("3", 3), "float": ("0.5", 0.5)}


def test_its_flags_are_those_of_a_run() -> None:
    assert [flag.word for flag in fit_parser.flags()] == config.flag_names()
    assert {flag.name for flag in fit_parser.of_run()} == config.to_flat(config.Run()).keys()


@pytest.mark.parametrize("flag", fit_parser.of_run(), ids=lambda flag: str(flag.name))
def test_each_flag_is_read_apart_and_joined(flag: fit_parser.Flag) -> None:
    text, value = VALUES.get(flag.annotation, ("24x32", "24x32"))
    for words in ([flag.word, text], [f"{flag.word}={text}"]):
        run = config.parse(words)
        assert repr(config.to_flat(run)[flag.name]) == repr(value) and run.explicit == {flag.name}
    if flag.annotation == "bool":
        assert config.to_flat(config.parse([flag.word, "--lr", "1"]))[flag.name] is True


def test_flags_alone_load_no_yaml() -> None:
    code = (
        "import sys; from mxtrain import config; config.parse(['--train', 'a.rec', '--lr', '0.1'])\n"
        "print('yaml' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "False\n"


NUMBERS = [flag for flag in fit_parser.of_run() if flag.annotation in ("int", "float")]


@pytest.mark.parametrize("flag", NUMBERS, ids=lambda flag: str(flag.name))
def test_no_number_is_infinite_or_none_however_it_is_written(flag: fit_parser.Flag, tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    for text in (".inf", "-.inf", ".nan", "inf", "nan", "1e999"):
        path.write_text(f"{flag.name}: {text}\n")
        for words in ([f"{flag.word}={text}"], ["--config", str(path)]):
            with pytest.raises(UsageError, match=rf"({flag.name}|{flag.word}): expected a (whole )?number"):
                config.parse(words)
    for number in (math.inf, -math.inf, math.nan):
        with pytest.raises(UsageError, match=f"{flag.name}: expected a (whole )?number, got -?(inf|nan)"):
            config.Run.of(**{flag.name: number})
