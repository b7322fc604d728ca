"""Samples as the net sees them in training, kept as files that people can look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.config import Run
from mxtrain.core.opencv import cv2
from mxtrain.fit import fit
from mxtrain.models.parameters import weights
from mxtrain.runtime import mx
from mxtrain.tasks.classification import Classification
from mxtrain.tasks.multilabel import Multilabel
from mxtrain.tasks.regression import Regression
from mxtrain.tasks.sequence_classification import SequenceClassification
from mxtrain.train.telemetry.seen_samples import COUNT, FOLDER, SeenSamples

SIDE = 16
FLAGS = {"image_size": SIDE, "batch_size": 8, "micro_batch": 4, "epochs": 1, "threads": 1, "log": "none"}
NUMBERS = config.parse(["--train", "t.rec", "--image-size", str(SIDE)])


def pictures(count: int = 24) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (count, SIDE, SIDE, 3), np.uint8), np.arange(count) % 3


def learnt(out: Path, **flags: Any) -> list[Path]:
    """The files that a run keeps."""
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Flatten(), mx.gluon.nn.Dense(3))
    fit(Run.of(**{**FLAGS, **flags}, out=str(out)), train=pictures(), net=net)
    return sorted((out / FOLDER).iterdir())


def read(path: Path) -> Any:
    return cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)


def test_pictures_are_those_of_the_first_micro_batch(tmp_path: Path) -> None:
    kept = learnt(tmp_path, overfit=1, micro_batch=8, val_resize=SIDE)
    assert len(kept) == 8
    known, labels = pictures()
    for path in kept:
        seen = read(path)
        apart = np.abs(known.astype(int) - seen).max(axis=(1, 2, 3))
        assert apart.min() <= 1, path  # rounded once as it is normalised, and once more here
        assert path.name == f"{kept.index(path):02d} {labels[apart.argmin()]}.png"


def test_what_is_mixed_is_seen_mixed_and_says_so(tmp_path: Path) -> None:
    kept = learnt(tmp_path, mixup=1.0, augment="none")
    assert len(kept) == 4 and all("% " in path.name and ", " in path.name for path in kept)
    known, _ = pictures()

    def apart(files: list[Path]) -> int:
        """Return how far the picture that is least like any that there is is from all of them."""
        return max(np.abs(known.astype(int) - read(path)).max(axis=(1, 2, 3)).min() for path in files)

    assert apart(kept) > 20 and apart(learnt(tmp_path / "plain", augment="none")) <= 1


def test_an_attempt_replaces_those_of_the_one_before(tmp_path: Path) -> None:
    first = {path.name: path.read_bytes() for path in learnt(tmp_path)}
    second = {
        path.name: path.read_bytes() for path in learnt(tmp_path, epochs=2)
    }  # goes on behind the first epoch
    assert len(second) == 4 and second != first


def test_a_run_that_begins_anew_sets_them_aside(tmp_path: Path) -> None:
    before = [path.read_bytes() for path in learnt(tmp_path)]
    learnt(tmp_path, resume="never", seed=7)
    assert [path.read_bytes() for path in sorted((tmp_path / "previous-1" / FOLDER).iterdir())] == before


def test_nothing_stops_the_run(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / FOLDER).write_text("in the way")
    with pytest.raises(NotADirectoryError):
        learnt(tmp_path / "run")
    assert (tmp_path / "run" / "metrics.jsonl").read_text().count('"kind": "train"') == 3

    class Failing(Classification):
        def samples_seen(self, arrays: Any) -> Any:
            raise RuntimeError("no")

    seen = SeenSamples(lambda arrays, step, position: arrays, is_kept=True)
    seen({"data": np.zeros((2, 3, 4, 4)), "label": np.zeros(2)}, 0, 0)
    seen.write(Failing(NUMBERS, {"class_names": ["a"]}), tmp_path)
    assert SeenSamples(lambda *_: {"scale": 2.0}, is_kept=True)({}, 0, 0) == {"scale": 2.0}
    assert not (tmp_path / FOLDER).exists()


def test_only_the_first_micro_batch_of_one_worker_is_kept(tmp_path: Path) -> None:
    task = Classification(NUMBERS, {"class_names": ["a/b <i>", "ü" * 300]})
    batch = {"data": np.zeros((40, 3, SIDE, SIDE), np.uint8), "label": np.arange(40) % 2}
    for is_kept in (False, True):
        seen = SeenSamples(lambda arrays, step, position: arrays, is_kept)
        assert seen(batch, 0, 0) is batch
        assert seen({**batch, "label": batch["label"] * 0}, 0, 1)["label"].sum() == 0
        batch["data"][:] = 255  # the loader's memory is used again
        seen.write(task, tmp_path)
        assert (tmp_path / FOLDER).exists() == is_kept
        batch["data"][:] = 0
    names = sorted(path.name for path in (tmp_path / FOLDER).iterdir())
    assert len(names) == COUNT and names[0] == "00 a_b _i_.png" and names[1].startswith("01 üüü")
    assert all(read(path).max() == 0 for path in (tmp_path / FOLDER).iterdir())


def test_large_pictures_are_small_files(tmp_path: Path) -> None:
    task = Classification(NUMBERS, {"class_names": ["a"]})
    seen = SeenSamples(lambda arrays, step, position: arrays, is_kept=True)
    smooth = np.broadcast_to(np.linspace(-2, 2, 224, dtype=np.float32), (16, 3, 224, 224))
    seen({"data": smooth, "label": np.zeros(16)}, 0, 0)
    seen.write(task, tmp_path)
    sizes = [path.stat().st_size for path in (tmp_path / FOLDER).glob("*.jpg")]
    assert len(sizes) == 16 and sum(sizes) < 300_000


def test_labels_and_numbers_are_captions() -> None:
    data = np.zeros((2, 3, SIDE, SIDE), np.float32)
    several = Multilabel(NUMBERS, {"class_names": ["a", "b", "c"]})
    captions = [
        caption
        for caption, _ in several.samples_seen({"data": data, "label": np.array([[1, -1, 1], [0, 0, 0]])})
    ]
    assert captions == ["a, c", "none"]
    numbers = Regression(NUMBERS, {"targets": {"names": ["x", "y"], "mean": [0, 0], "deviation": [1, 1]}})
    seen = numbers.samples_seen({"data": data, "label": np.array([[1.5, 2], [0.25, 1e6]])})
    assert [caption for caption, _ in seen] == ["x 1.5, y 2", "x 0.25, y 1e+06"]
    mean = (np.array([0.485, 0.456, 0.406]) * 255).round()
    assert (seen[0][1] == mean).all()  # what is 0 once normalised


def test_grey_pictures_have_one_colour() -> None:
    run = config.parse(["--train", "t.rec", "--image-size", str(SIDE), "--channels", "1"])
    ((_, picture),) = Classification(run, {"class_names": ["a"]}).samples_seen(
        {"data": np.full((1, 1, SIDE, SIDE), 9, np.uint8), "label": np.zeros(1)}
    )
    assert picture.shape == (SIDE, SIDE, 1) and (np.asarray(picture) == 9).all()  # type: ignore[union-attr]


def test_it_moves_no_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def bits(out: Path) -> list[bytes]:
        net = mx.gluon.nn.HybridSequential()
        net.add(mx.gluon.nn.Flatten(), mx.gluon.nn.Dense(3))
        fit(Run.of(**FLAGS, out=str(out)), train=pictures(), net=net)
        return [array.tobytes() for array in weights.copy_of(net).values()]

    kept = bits(tmp_path / "kept")
    monkeypatch.setattr(SeenSamples, "write", lambda *_: None)
    assert bits(tmp_path / "plain") == kept and not (tmp_path / "plain" / FOLDER).exists()


@pytest.mark.parametrize("change", ["", "mask_spans:p=0.5"])
def test_texts_are_seen_where_they_are_changed(change: str) -> None:
    flags = ["--task", "sequence_classification", "--train", "t.rec", "--window", "16"]
    run = config.parse([*flags, *(["--augment", change] if change else [])])
    known = {
        "class_names": ["a", "b"],
        "tokenizer": "bytes",
        "vocab_size": 257,
        "end_token": 256,
        "dtype": "uint16",
    }
    tokens = np.array([[*b"one two", 257, 257, *b" four", 256, 0]], np.int32)
    arrays = {"tokens": tokens, "mask": (np.arange(16) < 15)[None], "label": np.ones(1)}
    seen = SequenceClassification(run, {**known, "window": 16}).samples_seen(arrays)
    assert list(seen) == ([("b", "one two[...] four")] if change else [])
