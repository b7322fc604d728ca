"""Labels that are no classes are refused in one line, and an array of one label is that label."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from mxtrain import config
from mxtrain.core.errors import DataError
from mxtrain.data.augment.transforms import train_transform
from mxtrain.data.decode import pixel_cache
from mxtrain.data.image_fields import picture_assembly
from mxtrain.data.labels import label_checks
from mxtrain.data.loading import sample_requests
from mxtrain.data.loading.loader import Loader, Request
from mxtrain.data.records.record_file import RecordFile, open_records
from mxtrain.data.records.record_writer import RecordWriter


def write(path: Path, given: list, payload: bytes = b"a picture") -> RecordFile:
    with RecordWriter(path) as writer:
        for key, label in enumerate(given):
            writer.write(key, label, payload)
    return open_records(path)


@pytest.mark.parametrize("label", [2.0**31, 2.0**22, float("inf"), float("nan")])
def test_one_wild_label_is_named_and_takes_no_memory(tmp_path: Path, label: float) -> None:
    found = write(tmp_path / "a.rec", [0.0, 1.0, label, 1.0, label])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError) as caught:
        label_checks.class_names(found, None, 0)
    words = str(caught.value)
    assert (
        words.startswith(f"{tmp_path}/a.rec: record 2 (key 2) has label {label:.10g}") and "\n" not in words
    )
    assert "pack again" in words and "2 " in words
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
    with pytest.raises(DataError, match=r"record 2 \(key 2\) has label"):
        label_checks.class_names(found, None, 3)
    sound = write(tmp_path / "b.rec", [0.0, 1.0])
    with pytest.raises(DataError, match=r"a\.rec: record 2 \(key 2\) has label"):
        label_checks.class_names(sound, found, 0)


@pytest.mark.parametrize("given", [[-1.0, -5.0], [float("-inf")] * 3, [-1.0, 0.0, 1.0]])
def test_a_label_below_0_is_named_whatever_the_others_are(tmp_path: Path, given: list[float]) -> None:
    found = write(tmp_path / "a.rec", given)
    with pytest.raises(DataError, match=rf"record 0 \(key 0\) has label {given[0]:g}, which is no class"):
        label_checks.class_names(found, None, 0)


def test_very_many_classes_are_still_classes(tmp_path: Path) -> None:
    assert len(label_checks.class_names(write(tmp_path / "a.rec", [0.0, 2.0**20]), None, 0)) == 2**20 + 1


def test_an_array_of_one_label_is_that_label(tmp_path: Path) -> None:
    """Write labels as MXNet's im2rec does with --pack-label."""
    payload = cv2.imencode(".png", np.zeros((16, 16, 3), np.uint8))[1].tobytes()
    found = write(tmp_path / "a.rec", [np.array([number % 2], np.float32) for number in range(6)], payload)
    assert label_checks.class_names(found, None, 0) == ["0", "1"]
    for records in (found, pixel_cache.in_memory(found, 1)):
        wanted = [Request(step=0, position=0, epoch=0, samples=np.arange(6))]
        with Loader(picture_assembly(records, train_transform("none", 16), 16, 5), wanted) as loader:
            assert [batch.arrays["label"].tolist() for batch in loader] == [[0, 1, 0, 1, 0, 1]]
    drawn = sample_requests.epoch_sampler(config.parse(["--sampling", "balanced"]), found)(0)
    assert sorted(drawn.tolist()) == list(range(6))


def test_several_labels_are_refused_with_their_number(tmp_path: Path) -> None:
    found = write(tmp_path / "a.rec", [np.array([0, 1], np.float32)] * 3)
    with pytest.raises(DataError, match="has 2 labels a record, and a sample has one class"):
        label_checks.class_names(found, None, 0)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([20, 3, 41], "its labels are numbers: --task regression learns numbers of pictures"),
        ([1, 0, 1], "--task multilabel learns a yes or no"),
        ([0, 0, 0], "a classifier needs at least two$"),
    ],
)
def test_one_name_says_what_its_labels_are(tmp_path: Path, given: list[int], words: str) -> None:
    """Write records as pack --multi-label makes them of a header `path,age`: it names the number of each."""
    (tmp_path / "a.classes.tsv").write_text("age\n")
    found = write(tmp_path / "a.rec", [np.array([number], np.float32) for number in given])
    with pytest.raises(DataError, match=f"holds 1 class; .*{words}"):
        label_checks.class_names(found, None, 0)


def test_fit_ends_in_one_line(tmp_path: Path) -> None:
    write(tmp_path / "a.rec", [0.0, 2.0**31])
    flags = ["--train", str(tmp_path / "a.rec"), "--out", str(tmp_path / "run")]
    line = [sys.executable, "-m", "mxtrain.fit", *flags]
    done = subprocess.run(line, capture_output=True, text=True, timeout=30)
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1 and "record 1 (key 1) has label 2147483648" in done.stderr
