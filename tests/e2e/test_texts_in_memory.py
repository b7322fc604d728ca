"""Texts of a Python program are learnt as their bytes, and judged one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mxtrain.config import Run
from mxtrain.core.errors import DataError, UsageError
from mxtrain.fit import fit
from mxtrain.predict import predict
from tests.tasks import texts

NET = {
    "model": "bilstm:width=16,hidden=16",
    "window": 32,
    "optimizer": "adam",
    "lr": 0.02,
    "log": "none",
    "threads": 1,
}


def test_a_list_of_texts_is_learnt(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    samples = [texts.order(rng) for _ in range(330)]
    columns = [each["text"] for each in samples], [float(each["label"] == "x first") for each in samples]
    run = Run.of(
        task="sequence_classification", epochs=5, batch_size=16, out=str(tmp_path), weight_decay=0.0, **NET
    )
    train, val = (tuple(column[part] for column in columns) for part in (slice(300), slice(300, None)))
    result = fit(run, train=train, val=val)
    assert result.best["val_accuracy"] > 0.9
    told = predict(result, ["abxcdy", "abycdx"])
    assert [each["classes"][0]["class"] for each in told] == ["1", "0"]


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    run = {**NET, "out": str(tmp_path)}
    with pytest.raises(UsageError, match="gives a int as the text of sample 1"):
        fit(Run.of(task="sequence_classification", **run), train=(["a", 3], [0, 1]))
    with pytest.raises(UsageError, match="pack them with --from tagged_text"):
        fit(Run.of(task="token_classification", **run), train=(["a", "b"], [0, 1]))
    with pytest.raises(DataError, match=r"label 0\.5"):
        fit(Run.of(task="sequence_classification", **run), train=(["a", "b"], [0, 0.5]))
