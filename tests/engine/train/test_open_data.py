"""A user's Gluon Dataset or DataLoader as training reads it."""

from __future__ import annotations

import functools
import pickle
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from mxtrain import config
from mxtrain.config.checks import run_checks
from mxtrain.config.flags import from_python
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data import image_fields
from mxtrain.data.augment import mixup
from mxtrain.data.loading.loader import Request
from mxtrain.data.user.streams import Stream
from mxtrain.data.user.user_datasets import UserBatches, UserDataset
from mxtrain.runtime import mx
from mxtrain.train.open_data import open_source

OWN = "tests.support.user_code.user_data"


def opened(source: str, *flags: str) -> Any:
    run = config.parse(["--train", f"{OWN}:{source}", "--batch-size", "16", "--image-size", "24", *flags])
    return open_source("--train", f"{OWN}:{source}", run)


def requests(num_steps: int, first: int = 0) -> list[Request]:
    """Two micro-batches a step, four steps an epoch."""
    return [
        Request(step, position, step // 4, np.arange(8))
        for step in range(first, num_steps)
        for position in (0, 1)
    ]


def loader(
    given: UserBatches, wanted: list[Request], batch_size: int = 16, size: int = 24, num_classes: int = 2
) -> Any:
    to_arrays = functools.partial(
        image_fields.of_batch, batch_size=batch_size, image_size=size, num_classes=num_classes
    )
    return given.loader(wanted, to_arrays)


def test_a_dataset_is_a_set_of_records() -> None:
    records = opened("dataset")
    record = records.read(3)
    assert (len(records), record.label, record.payload.shape, record.payload.dtype) == (
        64,
        1.0,
        (24, 24, 3),
        np.uint8,
    )
    np.testing.assert_array_equal(records.labels(), np.arange(64) % 2)


def test_gluons_image_folder_brings_its_names_and_its_labels_unread(tmp_path: Path) -> None:
    for name, level in (("ape", 10), ("bee", 200)):
        (tmp_path / name).mkdir()
        for number in range(2):
            cv2.imwrite(str(tmp_path / name / f"{number}.png"), np.full((5, 6, 3), level, np.uint8))
    records = UserDataset("folder", mx.gluon.data.vision.ImageFolderDataset(str(tmp_path)))
    assert records.class_names == ["ape", "bee"]
    assert records.labels().tolist() == [0, 0, 1, 1]
    assert (records.read(3).payload == 200).all()


class Insects(mx.gluon.data.vision.ImageFolderDataset):
    """Gluon's folder of classes with labels of its own."""

    synsets: tuple[str, ...] = ()

    def __init__(self, root: str):
        super().__init__(root)
        self.synsets = "other", "insect"

    def __getitem__(self, position: int) -> tuple[Any, int]:
        picture, label = super().__getitem__(position)
        return picture, int(label == 2)


def test_what_inherits_from_gluons_image_folder_gives_its_own_labels(tmp_path: Path) -> None:
    for name in ("ape", "bat", "bee"):
        (tmp_path / name).mkdir()
        cv2.imwrite(str(tmp_path / name / "0.png"), np.zeros((5, 6, 3), np.uint8))
    records = UserDataset("folder", Insects(str(tmp_path)))
    assert records.labels().tolist() == [records.read(row).label for row in range(3)] == [0, 0, 1]


def test_a_data_loader_is_cut_into_micro_batches_and_begun_anew_each_epoch() -> None:
    given = opened("batches", "--num-classes", "2")
    with loader(given, requests(6)) as made:
        batches = list(made)
    assert [(batch.request.step, batch.request.position) for batch in batches] == [
        (step, position) for step in range(6) for position in (0, 1)
    ]
    data = np.concatenate([batch.arrays["data"] for batch in batches])
    np.testing.assert_array_equal(data[64:], data[:32])
    assert (data.dtype, data.shape[1:]) == (np.float32, (3, 24, 24))
    with loader(given, requests(6, first=2)) as made:
        np.testing.assert_array_equal(np.concatenate([batch.arrays["data"] for batch in made]), data[32:])


def test_the_users_arrays_stay_as_they_are() -> None:
    """Mixing works in place."""
    given = opened("arrays", "--num-classes", "2", "--image-size", "16")
    before = [part.copy() for part in given._batches.batches[0]]
    with loader(given, requests(1), size=16) as made:
        for batch in made:
            mixup.mix(batch.arrays["data"], batch.arrays["label"], 0, 0, seed=0, mixup=1.0, cutmix=1.0)
    for part, was in zip(given._batches.batches[0], before):
        np.testing.assert_array_equal(part, was)


@pytest.mark.parametrize(
    ("source", "flags", "message"),
    [
        ("nothing", [], "returned int; return a Dataset, a DataLoader or a generator"),
        ("batches", [], "give --num-classes"),
        ("batches", ["--num-classes", "2", "--sampling", "balanced"], "knows no --sampling"),
        (
            "batches",
            ["--num-classes", "2", "--augment", "flip", "--skip-bad", "3"],
            "no --augment and --skip-bad",
        ),
        ("batches", ["--num-classes", "2", "--normalize", "device"], "knows no --normalize"),
        ("batches", ["--num-classes", "2", "--verify", "never"], "knows no --verify"),
        ("batches", ["--num-classes", "2", "--verify", "always"], "knows no --verify"),  # the default
        ("no_batches", ["--num-classes", "2"], r"is a stream, generator without len\(\); give --epoch-steps"),
        ("dataset", ["--epoch-steps", "3"], "--epoch-steps 3: --train .* has a length"),
        ("batches", ["--epoch-steps", "3"], "--epoch-steps 3: --train .* has a length"),
        ("no_batches", ["--epoch-steps", "3"], "give --num-classes"),
        ("no_batches", ["--epoch-steps", "3", "--sampling", "balanced"], "knows no --sampling"),
        ("no_batches", ["--epoch-steps", "3", "--overfit", "2"], "knows no --overfit"),
        ("no_batches", ["--epoch-steps", "3", "--skip-bad", "2"], "knows no --skip-bad"),
        ("dataset", ["--cache", "disk"], "give --cache ram or none"),
    ],
)
def test_user_data_that_cannot_work_is_refused(source: str, flags: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        opened(source, *flags)


@pytest.mark.parametrize("flag", ["--train", "--val"])
def test_a_program_in_the_place_of_data_is_told_to_name_its_function(flag: str) -> None:
    with pytest.raises(
        UsageError, match=rf"{flag} my/digits\.py: is a Python program; give .* as digits:data"
    ):
        open_source(flag, "my/digits.py", config.parse(["--train", "a.rec"]))


def test_flags_that_concern_val_are_taken() -> None:
    opened("batches", "--num-classes", "2", "--skip-bad", "3", "--verify", "never", "--val", "val.rec")


@pytest.mark.parametrize(("source", "words"), [("too_few", "lower that"), ("empty", "no samples")])
def test_empty_user_data_is_refused(source: str, words: str) -> None:
    with pytest.raises(DataError, match=f"--train {OWN}:{source}: .*{words}"):
        opened(source, "--num-classes", "2")


PICTURES, LABELS = np.zeros((16, 3, 24, 24)), np.zeros(16)


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ((PICTURES, LABELS, 1), "give (pictures, labels)"),
        (PICTURES, "give (pictures, labels)"),
        (7, "give (pictures, labels)"),
        ((PICTURES, ["cat"] * 16), "give (pictures, labels)"),
        ((PICTURES[:10], LABELS), "gave pictures of shape (10, 3, 24, 24); give (16, 3, 24, 24)"),
        ((PICTURES[:, :1], LABELS), "gave pictures of shape (16, 1, 24, 24)"),
        ((PICTURES.transpose(0, 2, 3, 1), LABELS), "gave pictures of shape (16, 24, 24, 3)"),
    ],
)
def test_batches_of_another_shape_or_type_are_refused(batch: Any, words: str) -> None:
    with pytest.raises(UsageError) as refused:
        next(iter(loader(UserBatches("mine:loader", [batch] * 4, 16), requests(1))))
    assert str(refused.value).startswith("--train mine:loader: ") and words in str(refused.value)


def test_batches_that_do_not_make_steps_are_refused() -> None:
    with pytest.raises(UsageError, match="as many as --batch-size 32"):
        given = opened("batches", "--num-classes", "2", "--batch-size", "32")
        next(iter(loader(given, requests(1), batch_size=32)))
    with pytest.raises(DataError, match="labels from 0 to 1; there are 1 classes"):
        next(iter(loader(opened("batches", "--num-classes", "2"), requests(1), num_classes=1)))


def test_pictures_that_were_transformed_are_refused() -> None:
    transformed = mx.gluon.data.ArrayDataset(np.zeros((2, 3, 8, 8), np.float32), np.zeros(2))
    with pytest.raises(UsageError, match="before any transform"):
        UserDataset("mine", transformed, record_of=image_fields.record_of).read(0)


def test_processes_are_refused_to_what_passes_by_once(tmp_path: Path) -> None:
    flags = ["--image-size", "16", "--num-classes", "2", "--batch-size", "16", "--loader", "processes"]
    run = config.parse(["--train", f"{OWN}:arrays", *flags, "--out", str(tmp_path)])
    with pytest.raises(UsageError, match="leave --loader processes out"):
        open_source("--train", f"{OWN}:arrays", run)


def test_a_dataset_is_made_again_in_a_process(tmp_path: Path) -> None:
    run = config.parse(["--train", f"{OWN}:dataset", "--loader", "processes", "--out", str(tmp_path)])
    run_checks.check(run)
    own = open_source("--train", f"{OWN}:dataset", run)
    again = pickle.loads(pickle.dumps(own))
    for place in (0, len(own) - 1):
        one, other = own.read(place), again.read(place)
        assert np.array_equal(one.payload, other.payload) and one.label == other.label
    assert np.array_equal(own.labels(), again.labels())
    name, _, _, *others = own.__reduce__()[1]
    with pytest.raises(DataError, match="returned 64 samples in a loader's process, and 9 before"):
        own.__reduce__()[0](name, None, 9, *others)


@pytest.mark.parametrize("kind", ["generator function", "iterable", "generator"])
def test_a_stream_of_a_python_program(kind: str) -> None:
    def generator() -> Any:
        number = 0
        while True:
            yield np.full((24, 24, 3), number % 256, np.uint8), number % 2
            number += 1

    class Iterable:
        def __iter__(self) -> Any:
            return generator()

    stream = {"generator function": generator, "iterable": Iterable(), "generator": generator()}[kind]
    run = config.parse(["--num-classes", "2", "--batch-size", "16", "--epoch-steps", "5"])
    run, objects = from_python.with_objects(run, {"train": stream})
    opened = open_source("--train", str(run.data.train), run, objects=objects)
    assert isinstance(opened, Stream) and len(opened) == 80
    assert opened.read(100).payload[0, 0, 0] == 100
