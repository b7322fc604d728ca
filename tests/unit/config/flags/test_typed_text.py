"""What a text says, as the value of a flag of each type."""

from __future__ import annotations

import argparse
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mxtrain.config.flags import fit_parser, typed_text

WORDS = (
    "a.rec,b.rec a/*.rec pkg.mod:make cpu:0,1 a=b none off true 007 12:30 2020-01-01 [a] {a:b} & ' #c \u00e9"
)


@pytest.mark.parametrize(
    ("annotation", "values"),
    [
        ("int", {"0": 0, "007": 7, "-1": -1, "+1": 1, " 8\n": 8, "1_000": 1000, "0x10": 16, "12:30": 750}),
        ("float", {"1": 1.0, ".5": 0.5, "5.": 5.0, "1e-4": 1e-4, "1E5": 1e5, "0x10": 16.0, "1:30": 90.0}),
        ("bool", {"true": True, "False": False, "on": True, "NO": False, "yes": True, "off": False}),
        ("Optional[str]", {"null": None, "~": None, "Null": None, "none": "none", "": "", "0": "0"}),
    ],
)
def test_values_are_of_their_type(annotation: str, values: dict[str, Any]) -> None:
    # repr tells 1 from 1.0 and from True
    read = {text: typed_text.read(annotation, text) for text in values}
    assert repr(read) == repr(values)


@pytest.mark.parametrize("text", [*WORDS.split(), "", " ", "a b", "# c"])
def test_text_stays_as_it_is_written(text: str) -> None:
    for annotation in ("str", "Optional[str]", "Union[int, str]"):
        assert typed_text.read(annotation, text) == text


@pytest.mark.parametrize(
    ("annotation", "texts", "expected"),
    [
        ("int", ["", "x", "1.0", "1e3", "true", "null", "[1]", "=", "2020-13-45", "1 #c"], "a whole number"),
        ("float", ["", "x", "nan", "inf", "1,5", "true", "~", "{", "2020-01-01", "!x"], "a number"),
        ("bool", ["", "x", "1", "0", "y", "null", "maybe"], "true or false"),
    ],
)
def test_other_text_is_refused(annotation: str, texts: list[str], expected: str) -> None:
    for text in texts:
        with pytest.raises(argparse.ArgumentTypeError) as refused:
            typed_text.read(annotation, text)
        assert str(refused.value) == f"expected {expected}, got '{text}'"


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted({flag.annotation for flag in fit_parser.of_run()})),
    st.one_of(st.text(max_size=8), st.text(st.characters(codec="ascii"), max_size=8)),
)
def test_any_text_is_read_or_refused(annotation: str, text: str) -> None:
    try:
        value = typed_text.read(annotation, text)
    except argparse.ArgumentTypeError:
        assert annotation in typed_text.EXPECTED
    else:
        assert type(value).__name__ == annotation or value in (text, None)
