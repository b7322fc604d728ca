from __future__ import annotations

import math

import pytest

from mxtrain.core import plain_text


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-1.5", -1.5),
        ("+.5", 0.5),
        ("1.", 1),
        (" 2\t", 2),
        ("1e3", 1000),
        ("1E-2", 0.01),
        ("007", 7),
    ],
)
def test_what_is_a_number(text: str, number: float) -> None:
    assert plain_text.parse_number(text) == number


def test_a_number_keeps_all_digits_before_its_point() -> None:
    told = [
        plain_text.number(each, 5) for each in (1700000001.25, -1234567.0, 99999.6, 0.1234567, 1e300, 0.0)
    ]
    assert told == ["1700000001", "-1234567", "1e+05", "0.12346", "1e+300", "0"]
    assert [plain_text.number(each, 5) for each in (math.nan, -math.inf)] == ["nan", "-inf"]


@pytest.mark.parametrize(
    "text", ["", "1_2", "١٢", "²", "0x10", "1e", ".", "e5", "1,5", "--1", "nano", "1 2", "1e1_0"]
)
def test_what_is_none(text: str) -> None:
    assert plain_text.parse_number(text) is None
    assert plain_text.parse_whole_number(text) is None


@pytest.mark.parametrize("text", ["nan", "NaN", "-inf", "Infinity", "1e999"])
def test_what_says_that_it_is_not_finite(text: str) -> None:
    number = plain_text.parse_number(text)
    assert number is not None and not math.isfinite(number)


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("12", 12), ("-1", None), ("1.0", None), ("9" * 5000, None)]
)
def test_whole_numbers(text: str, number: int | None) -> None:
    assert plain_text.parse_whole_number(text) == number


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("a\r\n\nb\r\n", ["a", "", "b"]),
        ("\n", [""]),
        ("a\x0bb\x0cc\x1cd\x85e\u2028f\rg", ["a\x0bb\x0cc\x1cd\x85e\u2028f\rg"]),
    ],
)
def test_lines(text: str, lines: list[str]) -> None:
    assert plain_text.split_lines(text) == lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a b\xa0c\u3000d/ä.jpg", "a b\xa0c\u3000d/ä.jpg"),
        ("a\tb\nc\x85d\u2028e", r"a\tb\nc\x85d\u2028e"),
        ("\udcff", r"\udcff"),
    ],
)
def test_what_is_shown_on_one_line(text: str, shown: str) -> None:
    assert plain_text.printable(text) == shown
