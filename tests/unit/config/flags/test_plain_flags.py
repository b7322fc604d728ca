"""Plain flags are read as the parser of all flags reads them, or not at all."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mxtrain.config import SECTIONS, schema
from mxtrain.config.flags import parsing, plain_flags
from mxtrain.core.errors import Stop

FIELDS = {field.name: field for section in SECTIONS.values() for field in dataclasses.fields(section)}
TYPES = {name: field.type for name, field in FIELDS.items()}
ODD = """
    data/t.rec,b.rec a/*.rec pkg.mod:make resnet50_v1b cpu:0,1 cosine:cycles=3,floor=0.01 /a ./a a=b a:b a#b off none
    true null yes on y n 0 1 007 0x10 1_000 1e3 1e-4 1E5 .5 5. -1 +1 0.05 12:30 2020-01-01 ~ nan inf .inf .nan [a]
    {a:b} & ' \u00e9 \u0663 1\u0663 1e400 999999999999999999999999 Null TRUE None a-b: -
"""
VALUES = st.one_of(
    st.sampled_from([*ODD.split(), "", " ", "\n", "a b"]),
    st.text(st.characters(codec="ascii"), max_size=6),
    st.integers().map(str),
    st.floats().map(repr),
)
ARGUMENTS = st.lists(
    st.tuples(st.sampled_from(sorted(FIELDS)), VALUES, st.sampled_from(["apart", "joined", "alone"])),
    max_size=4,
)


def as_words(name: str, value: str, way: str) -> list[str]:
    flag = "--" + name.replace("_", "-")
    return {"apart": [flag, value], "joined": [f"{flag}={value}"], "alone": [flag]}[way]


@settings(max_examples=150, deadline=None)
@given(ARGUMENTS)
def test_what_is_read_is_what_the_parser_of_all_flags_reads(
    given_flags: list[tuple[str, str, str]],
) -> None:
    words = [word for each in given_flags for word in as_words(*each)]
    values = plain_flags.read(words, TYPES)
    if values is not None:
        # repr tells 1 from 1.0 and from True
        assert repr(schema.from_flat(values)) == repr(parsing._parse_all(words, "fit"))


@pytest.mark.parametrize("name", sorted(FIELDS))
def test_each_flag_has_a_plain_form(name: str) -> None:
    text = {"bool": [], "int": ["3"], "float": ["0.5"], "Union[int, str]": ["24x32"]}.get(
        TYPES[name], ["word"]
    )
    words = ["--" + name.replace("_", "-"), *text]
    values = plain_flags.read(words, TYPES)
    assert values is not None
    assert repr(schema.from_flat(values)) == repr(parsing._parse_all(words, "fit"))


@pytest.mark.parametrize(
    "line",
    [
        "--config a.yaml",
        "--print-config",
        "--help",
        "--lr x",
        "--no-flag 1",
        "word",
        "--lr",
        "--batch_size 8",
    ],
)
def test_the_rest_is_not(line: str) -> None:
    assert plain_flags.read(line.split(), TYPES) is None
    if "config" not in line and "help" not in line:
        with pytest.raises(Stop):
            parsing.parse(line.split())


def test_a_plain_command_loads_no_jsonargparse() -> None:
    code = (
        "import sys; from mxtrain import config; config.parse(['--train', 'a.rec', '--lr', '0.1'])\n"
        "print('jsonargparse' in sys.modules, 'yaml' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "False False\n"
