"""What a run looks at before mxnet is loaded."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

from mxtrain import config
from mxtrain.checkpoint.directory import Checkpoint
from mxtrain.data.augment import augment_choice
from mxtrain.data.records.record_file import RecordFile
from mxtrain.data.records.record_writer import RecordWriter
from mxtrain.train import session

NUM_PICTURES = 8


def test_pictures_are_looked_at_where_a_run_begins_and_not_where_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = cv2.imencode(".png", np.zeros((80, 90, 3), np.uint8))[1].tobytes()
    with RecordWriter(tmp_path / "train.rec") as writer:
        for key in range(NUM_PICTURES):
            writer.write(key, float(key % 2), picture)
    looked: list[int] = []
    read = RecordFile.read

    def noted(records: RecordFile, position: int, verify: bool = True) -> object:
        looked.append(position)
        return read(records, position, verify)

    monkeypatch.setattr(RecordFile, "read", noted)
    run = config.parse(["--train", str(tmp_path / "train.rec"), "--out", str(tmp_path / "run")])
    inputs = session.open_inputs(run)
    saved = {**config.to_flat(run), "augment": "flip"}
    goes_on = session.begun(run, inputs, Checkpoint(tmp_path, {"config": saved, "micro_batch": 16}))
    assert goes_on.data.augment == "flip" and not looked
    for _ in range(2):
        assert session.begun(run, inputs, None).data.augment == augment_choice.GENTLE
    assert looked == list(range(NUM_PICTURES))
