"""The parsers of all commands: what they say of flags that they do not have."""

from __future__ import annotations

import importlib
import re

import pytest

from mxtrain import config
from mxtrain.core.errors import UsageError
from tools.im2rec_wrapper.__main__ import _parser as packer


@pytest.mark.parametrize(
    ("typed", "meant"), [("--tarin", "--train"), ("--epohcs=3", "--epochs"), ("--vla", "--val")]
)
def test_fit_offers_the_nearest_flag_alone(typed: str, meant: str) -> None:
    said = f"; did you mean '{meant}'? (see python -m mxtrain.fit --help all)"
    with pytest.raises(UsageError, match=re.escape(said)):
        config.parse([typed, "x"])


@pytest.mark.parametrize(
    ("command", "typed", "said"),
    [
        (
            "evaluate",
            ["--run", "RUN", "--deviecs=cpu"],
            "unknown flag --deviecs; did you mean '--devices'? (see ",
        ),
        (
            "predict",
            ["--run", "RUN", "--tpo", "3", "PICTURE"],
            "unknown flag --tpo; did you mean '--top'? (see ",
        ),
        ("doctor.__main__", ["--jsno"], "unknown flag --jsno; did you mean '--json'? (see "),
        ("doctor.__main__", ["--zzz"], "unknown flag --zzz (see "),
    ],
)
def test_other_commands_offer_it_too(command: str, typed: list[str], said: str) -> None:
    parser = importlib.import_module(f"mxtrain.{command}").parser()
    with pytest.raises(UsageError, match=re.escape(said)):
        parser.parse_args(typed)


def test_a_command_of_the_packer_offers_its_own_flags() -> None:
    with pytest.raises(
        UsageError, match=r"unknown flag --qualty; did you mean '--quality'\? \(see .* pack --help"
    ):
        packer().parse_args(["pack", "pictures", "out", "--qualty", "90"])
