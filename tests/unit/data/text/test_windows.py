"""Windows of tokens over documents, and records that are none."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

from mxtrain.core.errors import DataError
from mxtrain.data.records.record_file import open_records
from mxtrain.data.records.record_sets import open_set
from mxtrain.data.records.record_writer import RecordWriter
from mxtrain.data.records.recordio import MAGIC_BYTES
from mxtrain.data.text.tokens import format_of, tokens_path
from mxtrain.data.text.windows import Windows
from tests.support.data.token_data import END, write_tokens

DOCUMENTS = [[1, 2, 3, 4, 5, 6, 7], [], [8], list(range(10, 23))]


def windows(path, length):
    records = open_set(str(path))
    return Windows(records, format_of(records), length)


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 25, 100])
def test_each_token_is_in_one_window_behind_the_one_before_it(tmp_path, length):
    path = write_tokens(tmp_path / "a.rec", DOCUMENTS)
    row = [END, *(token for document in DOCUMENTS for token in (*document, END))]
    found = windows(path, length)
    assert len(found) == -(-(len(row) - 1) // length)
    for position in range(len(found)):
        payload = found.read(position).payload.tolist()
        assert payload == row[position * length : (position + 1) * length + 1]


def test_shards_and_another_process_read_the_same_windows(tmp_path):
    write_tokens(tmp_path / "whole.rec", DOCUMENTS)
    write_tokens(tmp_path / "a-00000-of-00002.rec", DOCUMENTS[:2])
    write_tokens(tmp_path / "a-00001-of-00002.rec", DOCUMENTS[2:])
    whole = windows(tmp_path / "whole.rec", 4)
    parts = pickle.loads(pickle.dumps(windows(tmp_path / "a-*.rec", 4)))
    parts.will_need(np.arange(len(parts)))
    for position in range(len(whole)):
        assert whole.read(position).payload.tolist() == parts.read(position).payload.tolist()


def test_a_window_is_named_by_its_documents(tmp_path):
    found = windows(write_tokens(tmp_path / "a.rec", DOCUMENTS), 8)
    assert found.where(0) == f"window 0 of 8 tokens, in {tmp_path}/a.rec: record 0 (key 0)"
    assert found.where(1).endswith("record 1 (key 1) and 2 more")


def test_payload_sizes_are_those_of_the_payloads(tmp_path):
    payloads = [b"", b"abc", MAGIC_BYTES * 3, bytes(100)]
    with RecordWriter(tmp_path / "a.rec") as writer:
        for key, payload in enumerate(payloads):
            writer.write(key, np.arange(2 * key, dtype=np.float32) if key else 0.0, payload)
    assert open_records(tmp_path / "a.rec").payload_sizes().tolist() == [0, 3, 12, 100]


def test_damaged_and_hostile_records_are_named(tmp_path):
    def refused(says, documents=DOCUMENTS, **options):
        path = write_tokens(tmp_path / "a.rec", documents, **options)
        with pytest.raises(DataError, match=says):
            found = windows(path, 4)
            for position in range(len(found)):
                found.read(position)

    refused(r"record 1 \(key 1\): it has token 300, but the vocabulary ends at 256", [[1], [300]])
    refused("no end_token", end_token=None)
    refused("does not say how many tokens there are", vocab_size=None)
    path = write_tokens(tmp_path / "a.rec", DOCUMENTS)
    described = json.loads(tokens_path(path).read_text())
    for change, says in [
        ({"dtype": "uint32"}, "its 2 bytes are no row of uint32"),
        ({"dtype": "float32"}, "is damaged"),
        ({"vocab_size": 0}, "is damaged"),
        ({"vocab_size": True}, "is damaged"),
        ({"end_token": 257}, "is damaged"),
        ({"end_token": 255}, "does not end with token 255"),
        ({"tokenizer": 3}, "is damaged"),
    ]:
        tokens_path(path).write_text(json.dumps({**described, **change}))
        with pytest.raises(DataError, match=says):
            windows(path, 4).read(1)
    tokens_path(path).write_text("{")
    with pytest.raises(DataError, match="is damaged"):
        windows(path, 4)
    tokens_path(path).unlink()
    with pytest.raises(DataError, match="is missing"):
        windows(path, 4)


def test_sets_with_other_tokens_are_refused(tmp_path):
    write_tokens(tmp_path / "a.rec", DOCUMENTS)
    for name, options, says in [
        ("b", {"tokenizer": "words:split"}, "another tokenizer"),
        ("c", {"vocab_size": 300}, "another vocab size than .*300, not 257"),
        ("d", {"dtype": "uint32"}, "ids of uint32"),
    ]:
        write_tokens(tmp_path / f"{name}.rec", DOCUMENTS, **options)
        with pytest.raises(DataError, match=says):
            windows(f"{tmp_path}/a.rec,{tmp_path}/{name}.rec", 4)
