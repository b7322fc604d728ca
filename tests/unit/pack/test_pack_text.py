"""Text packed by a tokenizer that is learnt from it, or loaded from a file."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mxtrain.core.errors import UsageError
from mxtrain.data.packing.options import Options
from mxtrain.data.packing.pack import pack
from mxtrain.data.records.record_file import open_records
from mxtrain.data.text import tokenizers
from mxtrain.data.text.tokens import format_of
from tools.im2rec_wrapper.checking.check import check


@pytest.fixture
def texts(tmp_path):
    texts = [f"def function_{number}(x):\n    return x + {number} * x  # Ω\n" for number in range(40)]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return texts


def packed(tmp_path, name, tokenizer):
    pack(tmp_path / "texts.jsonl", tmp_path / name, Options(train_share=0.9, tokenizer=tokenizer))
    return tmp_path / name


def test_a_learnt_tokenizer_lies_beside_the_records_and_is_the_same_again(tmp_path, texts):
    pytest.importorskip("tokenizers")
    out = packed(tmp_path, "a", "bpe:vocabulary=300")
    again = packed(tmp_path, "b", "bpe:vocabulary=300")
    loaded = packed(tmp_path, "c", str(out / "tokenizer.json"))
    for name in ("train.rec", "val.rec", "train.tokens.json", "tokenizer.json"):
        assert (out / name).read_bytes() == (again / name).read_bytes() == (loaded / name).read_bytes(), name
    by = tokenizers.of_json((out / "tokenizer.json").read_text(), "")
    read = []
    for name in ("train.rec", "val.rec"):
        records = open_records(out / name)
        tokens = format_of(records)
        assert (tokens.tokenizer, tokens.end_token, tokens.dtype) == (by.name, by.end_token, "uint16")
        for position in range(len(records)):
            *ids, end = tokens.ids(records.read(position).payload).tolist()
            read.append(by.decode(ids))
            assert end == by.end_token
    assert sorted(read) == sorted(texts)
    assert not check([out / "train.rec", out / "val.rec"]).findings


def test_check_names_another_tokenizer_and_text_that_is_in_both_sets(tmp_path, texts):
    pytest.importorskip("tokenizers")
    with (tmp_path / "texts.jsonl").open("a") as file:
        file.write(
            '{"text": ""}\n' + json.dumps({"text": texts[0]}) + "\n" + json.dumps({"text": texts[1]}) + "\n"
        )
    out = packed(tmp_path, "a", "bpe")
    found = check([out / "train.rec", out / "val.rec"]).findings
    assert {finding.fault for finding in found} <= {"duplicate", "leak", "empty"}
    assert sum(finding.fault in ("duplicate", "leak") for finding in found) == 2
    assert sum(finding.fault == "empty" for finding in found) == 1
    (out / "tokenizer.json").write_text("{}")
    found = check([out / "val.rec"]).findings
    assert "is not the one that the records beside it were packed with" in found[0].text


@pytest.mark.parametrize(
    ("tokenizer", "says"),
    [
        ("bpe:vocabulary=5", "give 257 to"),
        ("bpe:size=5", "no number 'size'"),
        ("bpo", "did you mean 'bpe'"),
        ("none.json", "cannot be read"),
    ],
)
def test_a_tokenizer_that_is_none_is_refused(tmp_path, texts, tokenizer, says):
    with pytest.raises(UsageError, match=says):
        packed(tmp_path, "a", tokenizer)
    assert np.size([*tmp_path.glob("a/*")]) == 0
