"""Caffe's text files: the grammar, and what is said of files that break it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mxtrain.convert.caffe import prototxt
from mxtrain.convert.caffe.prototxt import Message, Word
from mxtrain.core.errors import DataError


def parsed(folder: Path, text: str | bytes) -> Message:
    path = folder / "net.prototxt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return prototxt.read(path)


def test_all_kinds_of_values(tmp_path: Path) -> None:
    found = parsed(
        tmp_path,
        """# a comment
        name: "Alex" 'Net'; quoted: "a \\"b\\" # no comment"
        base_lr: 1e-2 gamma: .5f, power: -3 hex: 0x1F
        phase: TRAIN mirror: true
        stepvalue: [10, 20] stepvalue: 30
        param { lr_mult: 1 } param: < lr_mult: 2 >
        """,
    )
    values = {field.name: field.value for field in found}
    assert values["name"] == "AlexNet" and values["quoted"] == 'a "b" # no comment'
    assert (values["base_lr"], values["gamma"], values["power"], values["hex"]) == (0.01, 0.5, -3, 31)
    assert values["phase"] == "TRAIN" and isinstance(values["phase"], Word) and values["mirror"] == "true"
    assert [field.value for field in found.all("stepvalue")] == [10, 20, 30]
    assert [each.last("lr_mult").value for each in found.messages("param")] == [1, 2]  # type: ignore[union-attr]
    assert [field.line for field in found][:3] == [2, 2, 3]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a: 1\nlayer {\n name: 'x'\n", 3, "the file ends where } should be"),
        ("a: 1\n}\n", 2, "'}' stands where the name of a field should be"),
        ("a: 1\nb 2", 1, "a value is missing"),
        ("a:\n", 1, "a value is missing"),
        ("a: 1\n\nname: 'no end\n", 1, "'no end' is not understood"),
        ("a: 1\nb: $x", 2, "'\\$x' is not understood"),
        ("a: [1, 2", 1, "a value is missing"),
        ("a {" * 100, 1, "nested more than 64 deep"),
        (b"\n\x80\x02\xff", 0, "is not text; give the .prototxt, not the .caffemodel"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    tmp_path: Path, text: str | bytes, line: int, reason: str
) -> None:
    with pytest.raises(DataError, match=reason) as refused:
        parsed(tmp_path, text)
    assert "net.prototxt" in str(refused.value)
    assert not line or ".prototxt:" in str(refused.value)


@given(st.text(alphabet="ab:{}<>[]\"'#\n 1.-,;\\", max_size=60))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.prototxt"
    path.write_text(text)
    try:
        prototxt.read(path)
    except DataError as refused:
        assert str(path) in str(refused)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.prototxt"):
        with pytest.raises(DataError, match=str(path)):
            prototxt.read(path)
