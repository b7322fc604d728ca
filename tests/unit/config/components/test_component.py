"""The language of flags that carry numbers."""

from __future__ import annotations

import pytest

from mxtrain.config.components.component import Component, Number, Spec, by_name, keys_of, parse
from mxtrain.core.errors import UsageError

KNOWN = by_name(
    Component(
        "fall",
        numbers={
            "times": Number(2, 1, 10),
            "share": Number(0.5, 0.0, 1.0),
            "at": Number((), 0.0, 1000.0),
            "size_min": Number(0.1, 0.0, 1.0),
            "size_max": Number(1.0, 0.0, 1.0),
        },
    ),
    Component("stay"),
)


def test_what_is_not_given_has_its_default() -> None:
    assert parse("--way", "fall", KNOWN) == Spec(
        "fall", {"times": 2, "share": 0.5, "at": (), "size_min": 0.1, "size_max": 1.0}
    )
    assert parse("--way", "stay", KNOWN) == Spec("stay", {})


def test_numbers_are_of_their_default_s_kind() -> None:
    numbers = parse("--way", "fall:share=1,times=3,at=30/60/80.5", KNOWN).hyperparameters
    assert (numbers["times"], numbers["share"], numbers["at"]) == (3, 1.0, (30.0, 60.0, 80.5))
    assert isinstance(numbers["times"], int) and isinstance(numbers["share"], float)
    assert parse("--way", "fall:at=7", KNOWN).hyperparameters["at"] == (7.0,)


def test_which_were_given_keys() -> None:
    assert keys_of("fall:times=3,at=1/2") == {"times", "at"}
    assert "times" not in keys_of("fall")


def test_a_path_is_left_to_its_owner() -> None:
    assert parse("--way", "json:loads", KNOWN) == Spec("json:loads", {})


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("fal", "unknown name; did you mean 'fall'"),
        ("fal:share=1", "fal: unknown name; did you mean 'fall'"),
        ("fall:shares=1", r"no number 'shares'; did you mean 'share'\? \(it has times, share, at"),
        ("stay:share=1", r"no number 'share' \(it has none\)"),
        ("fall:share=1,share=0.5", "share is given twice"),
        ("fall:times=1.5", "times=1.5: not a whole number"),
        ("fall:times=11", "times=11: give 1 to 10"),
        ("fall:share=", "share=: not a number"),
        ("fall:share=nan", "give 0 to 1"),
        ("fall:at=30,60", "no number '60'"),
        ("fall:at=30/x", "at=30/x: not a number"),
        ("fall:at=30/2000", "give 0 to 1000"),
        ("fall:size_min=0.5,size_max=0.2", "size_min=0.5 is above size_max=0.2"),
        ("no_such_module:share", "no module 'no_such_module'"),
    ],
)
def test_what_is_wrong_is_named_in_one_line(text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as refused:
        parse("--way", text, KNOWN)
    assert str(refused.value).startswith("--way ") and "\n" not in str(refused.value)
