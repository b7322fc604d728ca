"""Samples on the page: what a run has kept of what its net saw, and the set that the worst ones are of."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.core.opencv import cv2
from mxtrain.data.records.record_writer import RecordWriter
from mxtrain.data.text import tokenizers, tokens
from mxtrain.report import history
from mxtrain.report.page import sample_previews
from tests.support.jobs import recorded_run


def seen(folder: Path) -> Any:
    return sample_previews.augmented_samples(history.read(folder))


def test_pictures_and_texts_that_a_run_has_kept_are_shown(tmp_path: Path) -> None:
    folder = recorded_run.write(tmp_path / "a", steps=20)
    (folder / "augmented").mkdir()
    grey = cv2.imencode(".png", np.full((4, 4, 3), 90, np.uint8))[1].tobytes()
    (folder / "augmented" / "00 70% a, 30% b.png").write_bytes(grey)
    (folder / "augmented" / "01.txt").write_text("one [...] <b>")
    (folder / "augmented" / "02 torn.png").write_bytes(grey[:20])
    found = seen(folder)["samples"]
    assert [each["name"] for each in found] == ["70% a, 30% b", "01"]
    assert found[0]["picture"].startswith("data:image/jpeg") and found[1]["text"] == "one [...] <b>"
    white = cv2.imencode(".png", np.full((4, 4, 3), 255, np.uint8))[1].tobytes()
    (folder / "augmented" / "00 70% a, 30% b.png").write_bytes(white)  # by the run's next attempt
    assert seen(folder)["samples"][0]["picture"] != found[0]["picture"]


def test_with_overfit_the_worst_are_of_what_is_learnt(tmp_path: Path) -> None:
    folder = recorded_run.write(tmp_path / "a", steps=50, train="nowhere.rec", val="elsewhere.rec", overfit=2)
    worst = sample_previews.worst_samples(history.read(folder), [])
    assert worst is not None and "nowhere.rec" in worst["problem"]


def test_labels_and_words_are_told_by_their_names(tmp_path: Path) -> None:
    folder = recorded_run.write(tmp_path / "a", steps=20)
    samples = [
        {"sample": 0, "loss": 3.0, "labels": [0, 2], "wrong": [[2, 0.25], [9, 0.9]]},
        {"sample": 1, "loss": 2.0, "words": 7, "wrong": [[4, "O", "B-PER"]]},
        {"sample": 2, "loss": 1.0, "labels": [], "wrong": []},
    ]
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"kind": "worst", "step": 20, "epoch": 4, "samples": samples}) + "\n")
    worst = sample_previews.worst_samples(history.read(folder), ["a", "b", "c"])
    assert worst is not None
    assert [dict(each["told"]) for each in worst["samples"]] == [
        {"labels": "a; c", "wrong": "c 25%; 9 90%"},
        {"words": "7", "wrong": "word 5: O, taken for B-PER"},
        {"labels": "none", "wrong": "none"},
    ]


@pytest.mark.parametrize("name", ["foreign_tokenizer:encode", "foreign_tokenizer"])
def test_a_page_imports_nothing_that_a_run_folder_names_as_its_tokenizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "foreign_tokenizer.py").write_text("from pathlib import Path\nPath('ran').write_text('')\n")
    monkeypatch.chdir(tmp_path)
    with RecordWriter(tmp_path / "val.rec") as writer:
        writer.write(0, 0.0, np.array([104, 105, 256], np.uint16).tobytes())
    tokens.tokens_path(tmp_path / "val.rec").write_text(json.dumps(tokenizers.BYTE_FORMAT._asdict()))
    folder = recorded_run.write(tmp_path / "a", steps=20, val=str(tmp_path / "val.rec"), task="lm", window=4)
    with (folder / "metrics.jsonl").open("a") as file:
        samples = [{"sample": 0, "loss": 3.0}]
        file.write(json.dumps({"kind": "worst", "step": 20, "epoch": 4, "samples": samples}) + "\n")
    worst = sample_previews.worst_samples(history.read(folder), [], name)
    assert worst is not None and "is code, which a page does not run" in worst["problem"]
    assert not (tmp_path / "ran").exists() and "foreign_tokenizer" not in sys.modules
    shown = sample_previews.worst_samples(history.read(folder), [], "bytes")
    assert shown is not None and shown["samples"][0]["text"] == "hi", "the same set is shown by bytes"


def test_boxes_and_detections_are_drawn_and_told(tmp_path: Path) -> None:
    encoded = cv2.imencode(".png", np.zeros((64, 128, 3), np.uint8))[1].tobytes()
    with RecordWriter(tmp_path / "val.rec") as writer:
        writer.write(0, [2.0, 6.0], encoded)
    val = str(tmp_path / "val.rec")
    folder = recorded_run.write(tmp_path / "a", steps=20, task="detection", val=val)
    sample = {
        "sample": 0,
        "loss": 3.0,
        "boxes": [[1, 10, 10, 50, 40]],
        "detections": [[0, 0.91, 60, 20, 90, 50]],
    }
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"kind": "worst", "step": 20, "epoch": 4, "samples": [sample]}) + "\n")
    worst = sample_previews.worst_samples(history.read(folder), ["cat", "dog"])
    assert worst is not None and worst["problem"] == ""
    (shown,) = worst["samples"]
    assert dict(shown["told"]) == {"boxes": "dog", "detections": "cat 0.91"}
    jpeg = base64.b64decode(shown["picture"].partition(",")[2])
    pixels = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)[:, :, ::-1].astype(int)
    assert pixels[25, 10].argmax() == 1 and pixels[25, 10].max() > 90  # green
    assert pixels[35, 60].argmax() == 0 and pixels[35, 60].max() > 90  # red
    assert pixels[25, 30].max() < 50
