"""Tokenizers: bytes, ones that are trained here, and files; the bytes that tokens stand for."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.text import tokenizers

TEXTS = [
    "def one(number):\n    return number + 1\n",
    "def two(number):\n    return one(one(number))  # Ωé 🙂\n",
]


def test_bytes_go_there_and_back():
    by = tokenizers.of_bytes()
    ids = by.encode("Ωa")
    assert ids.tolist() == [*"Ωa".encode()] and by.decode([*ids, by.end_token]) == "Ωa"
    assert tokenizers.of_portable("bytes").end_token == 256
    assert tokenizers.bytes_of_tokens("bytes").tolist() == [1] * 256 + [0]


@pytest.fixture(scope="module")
def trained():
    pytest.importorskip("tokenizers")
    return tokenizers.train(iter(TEXTS * 3), 280, "--tokenizer")


def test_a_trained_one_is_the_same_again_and_loses_nothing(trained):
    assert tokenizers.train(iter(TEXTS * 3), 280, "--tokenizer").content == trained.content
    assert trained.vocab_size == 280 and trained.end_token == 0
    for text in (*TEXTS, "all else: \0\t ß <|endoftext|>"):
        ids = trained.encode(text)
        assert trained.decode(ids) == text
        assert trained.end_token not in ids  # what looks like it in a text is text
    assert len(trained.encode(TEXTS[0])) < len(TEXTS[0]) / 2


def test_tokens_say_their_bytes(trained, tmp_path):
    (tmp_path / "tokenizer.json").write_text(trained.content)
    portable = tokenizers.portable(trained.name, tmp_path)
    assert tokenizers.of_portable(portable).content == trained.content
    sizes = tokenizers.bytes_of_tokens(portable)
    assert len(sizes) == 280 and sizes[0] == 0
    for text in TEXTS:
        assert sizes[np.array(trained.encode(text))].sum() == len(text.encode())
    assert tokenizers.name_of(portable) == "tokenizer.json"
    changed = {**json.loads(trained.content), "normalizer": {"type": "Lowercase"}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(changed))
    with pytest.raises(DataError, match="is not the one that the records beside it were packed with"):
        tokenizers.portable(trained.name, tmp_path)
    lowering = tokenizers.of_json(json.dumps(changed), "a file")
    assert tokenizers.bytes_of_tokens(tokenizers.portable(lowering.name, tmp_path)) is None
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(DataError, match=r"tokenizer.json: is missing; copy it along"):
        tokenizers.portable(trained.name, tmp_path)
    with pytest.raises(DataError, match=r"a file: is no tokenizer.json"):
        tokenizers.of_json("{}", "a file")


def test_without_the_library_it_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(
        UsageError, match=r"--tokenizer: needs the library tokenizers; pip install 'mxtrain\[text\]'"
    ):
        tokenizers.train(iter(TEXTS), 300, "--tokenizer")
