"""Records of token ids, written as a pack writes them."""

from __future__ import annotations

import json

import numpy as np

from mxtrain.data.records.record_writer import RecordWriter
from mxtrain.data.text.tokens import tokens_path

END = 256


def write_tokens(
    path, documents, labels=None, dtype="uint16", end_token=END, vocab_size=257, tokenizer="bytes"
):
    """Write rows of ids, without their end, as documents; `labels` are theirs, or 0."""
    end = [] if end_token is None else [end_token]
    rows = [np.array([*row, *end], np.dtype(dtype).newbyteorder("<")) for row in documents]
    with RecordWriter(path) as writer:
        for key, row in enumerate(rows):
            writer.write(key, 0.0 if labels is None else float(labels[key]), row.tobytes())
    described = {
        "tokenizer": tokenizer,
        "vocab_size": vocab_size,
        "end_token": end_token,
        "dtype": dtype,
        "num_documents": len(rows),
        "num_tokens": sum(map(len, rows)),
    }
    tokens_path(path).write_text(json.dumps(described))
    return path
