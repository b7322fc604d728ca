"""A case for each task: what the shared tests of this folder need to know of it, as plain values.

A new task is one more `Case` in ALL; nothing else is written for what every task promises.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple

import numpy as np
import pytest

from examples import own_task_data
from mxtrain.data.records.recordio import Label
from tests.support.data import several_shapes
from tests.support.user_code import majority_data
from tests.tasks.data import boxes, dials, masks, readings, steps, stripes, tastes, texts
from tests.tasks.data.linear import (
    dials_r2,
    gauges_r2,
    majority_auc,
    shapes_precision,
    spirals_accuracy,
    stripes_accuracy,
    tastes_auc,
    waves_r2,
)

Change = Callable[[Label, bytes], "tuple[Label, bytes]"]  # of a record, its label and its payload


class Bar(NamedTuple):
    """What a run has to reach: the number of this name in its last evaluation, or the best where it has a score."""

    name: str  # with `val_`
    value: float
    is_lower_better: bool = False

    def is_reached(self, value: float) -> bool:
        return value <= self.value if self.is_lower_better else value >= self.value


class Hostile(NamedTuple):
    """A record that is wrong, and words of the message about it, which names the file too."""

    change: Change
    words: str
    is_skipped: bool = True  # by --skip-bad; what the labels of all records show is refused before


@dataclasses.dataclass(frozen=True)
class Case:
    """A task, its data and what becomes of them.

    `write(folder, num_train, num_val)` writes train.rec and val.rec, made by a seed of its own, with what belongs to
    them. `linear(folder)` returns what a linear model that learns train.rec reaches on val.rec, in the number of `bar`.
    """

    name: str
    write: Callable[[Path, int, int], None]
    flags: str  # the task, its net and optimizer
    learn: str  # how long, and what else the learning run takes
    bar: Bar
    linear: Callable[[Path], float]
    hostile: Mapping[str, Hostile]
    num_learnt: tuple[int, int] = (1200, 400)  # samples to learn, and to judge
    overfit: str = "--max-steps 60"  # until two batches are known by heart
    has_narrow: bool = True  # operators that --amp bf16 runs in bfloat16 at this size
    predict: tuple[str, ...] = ()  # its arguments; {folder} is the data's
    store: str = ""  # how, over a cluster, where it takes one way alone
    is_in_ci: bool = False  # or else its tests are slow


def cut(label: Label, payload: bytes) -> tuple[Label, bytes]:
    return label, payload[: len(payload) // 2]


def emptied(label: Label, payload: bytes) -> tuple[Label, bytes]:
    return label, b""


def noise(label: Label, payload: bytes) -> tuple[Label, bytes]:
    return label, bytes((31 * number + 7) % 256 for number in range(len(payload)))


def labelled(label: Any) -> Change:
    """Return the change of a record's label to this one."""
    return lambda _, payload: (label, payload)


CLASSIFICATION = Case(
    name="classification",
    write=stripes.write,
    flags="--model tests.support.nets.training_steps:quick_net --image-size 16 --val-resize 16 --augment none "
    "--optimizer adam --lr 0.01",
    learn="--batch-size 32 --epochs 4",
    bar=Bar("val_accuracy", 0.95),
    linear=stripes_accuracy,
    hostile={
        "empty": Hostile(emptied, "it holds no bytes"),
        "cut short": Hostile(cut, "picture"),
        "noise": Hostile(noise, "picture"),
        "label out of range": Hostile(labelled(7.0), "label 7, but there are 3 classes", is_skipped=False),
        "label is no number": Hostile(labelled(float("nan")), "label nan", is_skipped=False),
        "half a class": Hostile(labelled(0.5), "label 0.5", is_skipped=False),
    },
    predict=("{folder}/one.png",),
)

MAJORITY = Case(
    name="majority",
    write=majority_data.write_sets,
    flags="--task tests.support.user_code.majority:Majority --optimizer adam --lr 0.02 --weight-decay 0",
    learn="--batch-size 16 --micro-batch 4 --epochs 4",
    bar=Bar("val_auc", 0.98),
    linear=majority_auc,
    hostile={
        "empty": Hostile(emptied, "its words are not numbers below 10"),
        "ids out of range": Hostile(noise, "its words are not numbers below 10"),
        "too long": Hostile(lambda label, payload: (label, b"\1" * 25), "words has the shape (25,)"),
        "label out of range": Hostile(labelled(2.0), "labels that are not -1, 0 or 1", is_skipped=False),
        "label is no number": Hostile(labelled(float("nan")), "labels that are not", is_skipped=False),
    },
    num_learnt=(480, 160),
    has_narrow=False,  # its one product is of 4 x 8 x 2
)

MULTILABEL = Case(
    name="multilabel",
    write=several_shapes.write_sets,
    flags="--task multilabel --model small_cnn --image-size 24x32 --val-resize 24 --augment flip --mixup 0.2 "
    "--channels 1 --mean auto --deviation auto "
    "--class-weights auto --layer-decay 0.9 --lr-scale *.bias=2 --optimizer adam --lr 0.004 --weight-decay 0",
    learn="--batch-size 32 --epochs 6",
    bar=Bar("val_mean_average_precision", 0.95),
    linear=shapes_precision,
    hostile={
        "empty": Hostile(emptied, "it holds no bytes"),
        "cut short": Hostile(cut, "picture"),
        "noise": Hostile(noise, "picture"),
        "label is neither": Hostile(labelled((0.0, 2.0, 1.0)), "label 2 for 'disc'", is_skipped=False),
        "label is no number": Hostile(labelled((0.0, 1.0, np.nan)), "label nan for 'ring'", is_skipped=False),
        "labels too few": Hostile(labelled((0.0, 1.0)), "labels of shape (2,)", is_skipped=False),
        "one label": Hostile(labelled(1.0), "labels of shape ()", is_skipped=False),
    },
    num_learnt=(1500, 400),
    overfit="--mixup 0 --max-steps 60",
    predict=("{folder}/one.png", "--threshold", "0.3"),
)


def token(place: int, number: int) -> Change:
    """Return the change of one token of a record to this number."""

    def change(label: Label, payload: bytes) -> tuple[Label, bytes]:
        return label, payload[: 2 * place] + number.to_bytes(2, "little") + payload[2 * place + 2 :]

    return change


LM = Case(
    name="lm",
    write=steps.write,
    flags=f"--task lm --model gpt:layers=2,heads=2,width=32 --window {steps.WINDOW} --optimizer adamw --lr 0.01",
    learn="--batch-size 32 --epochs 8 --warmup-epochs 1",
    bar=Bar("val_perplexity", 1.5, is_lower_better=True),
    linear=steps.linear_perplexity,
    predict=("--prompt", "3a", "--temperature", "0", "--max-tokens", "5"),
    hostile={
        "ids out of range": Hostile(token(3, 300), "it has token 300, but the vocabulary ends at 256"),
        "empty": Hostile(emptied, "it has no tokens, not even its end", is_skipped=False),
        "half a token": Hostile(
            lambda label, payload: (label, payload[:7]), "its 7 bytes are no row of uint16", False
        ),
        "cut short": Hostile(cut, "it does not end with token 256"),
    },
    is_in_ci=True,
)

_TEXT_NET = "--model bilstm:width=16,hidden=16 --window 32 --optimizer adam --lr 0.01 --weight-decay 0"

SEQUENCES = Case(
    name="sequence_classification",
    write=texts.write_orders,
    flags=f"--task sequence_classification --class-weights auto --label-smoothing 0.01 "
    f"--augment mask_spans:p=0.03,mean=1+drop_words:p=0.02 {_TEXT_NET}",
    learn="--batch-size 32 --epochs 5",
    bar=Bar("val_accuracy", 0.97),
    linear=texts.bag_accuracy,
    predict=("{folder}/one.txt",),
    has_narrow=False,  # an LSTM stays in float32, and the rest is small
    hostile={
        "ids out of range": Hostile(token(2, 300), "it has token 300, but the vocabulary ends at 256"),
        "empty": Hostile(emptied, "it has no tokens"),
        "half a token": Hostile(
            lambda label, payload: (label, payload[:7]), "its 7 bytes are no row of uint16"
        ),
        "label out of range": Hostile(labelled(2.0), "label 2, but there are 2 classes", is_skipped=False),
        "label is no number": Hostile(labelled(float("nan")), "label nan", is_skipped=False),
        "a row of labels": Hostile(labelled((0.0, 1.0)), "labels of shape (2,)", is_skipped=False),
    },
)

TOKENS = Case(
    name="token_classification",
    write=texts.write_entities,
    flags=f"--task token_classification {_TEXT_NET}",
    learn="--batch-size 32 --epochs 4",
    bar=Bar("val_entity_f1", 0.97),
    linear=texts.window_entity_f1,
    predict=("{folder}/one.txt",),
    has_narrow=False,  # an LSTM stays in float32, and the rest is small
    hostile={
        "ids out of range": Hostile(token(2, 300), "it has token 300, but the vocabulary ends at 256"),
        "empty": Hostile(emptied, "it has no tokens"),
        "cut short": Hostile(cut, "labels for"),
        "one label": Hostile(labelled(1.0), "it has 1 labels for"),
        "label out of range": Hostile(lambda label, payload: (label + 7, payload), "a token has label 11"),
        "label is no number": Hostile(
            lambda label, payload: (label * np.nan, payload), "a token has label nan"
        ),
    },
)

REGRESSION = Case(
    name="regression",
    write=dials.write,
    flags="--task regression --model tests.tasks.data.dials:net --image-size 16 --val-resize 16 --optimizer adam "
    "--lr 0.01",
    learn="--batch-size 32 --epochs 10",
    bar=Bar("val_r2", 0.85),
    linear=dials_r2,
    hostile={
        "empty": Hostile(emptied, "it holds no bytes"),
        "cut short": Hostile(cut, "picture"),
        "noise": Hostile(noise, "picture"),
        "no number": Hostile(labelled((0.0, np.nan)), "is not finite", is_skipped=False),
        "too few numbers": Hostile(labelled((0.0,)), "labels of shape (1,)", is_skipped=False),
    },
    num_learnt=(2000, 400),
    predict=("{folder}/one.png",),
)

VECTORS = Case(
    name="vectors",
    write=readings.write_spirals,
    flags="--task arrays --model mlp:hidden=32/32 --optimizer adam --lr 0.02",
    learn="--batch-size 32 --epochs 12",
    bar=Bar("val_accuracy", 0.97),
    linear=spirals_accuracy,
    hostile={
        "empty": Hostile(emptied, "it holds 0 bytes, but its data (2,) ends at byte 8"),
        "cut short": Hostile(cut, "it holds 4 bytes"),
        "too long": Hostile(lambda label, payload: (label, payload + b"0000"), "its arrays end at byte 8"),
        "no number": Hostile(
            lambda label, payload: (label, np.array([1, np.nan], "<f4").tobytes()),
            "its north holds a number that is not finite",
        ),
        "label out of range": Hostile(labelled(2.0), "label 2, but there are 2 classes", is_skipped=False),
        "label is no number": Hostile(labelled(np.nan), "label nan", is_skipped=False),
    },
    predict=("{folder}/one.csv",),
)

SERIES = Case(
    name="series",
    write=readings.write_waves,
    flags="--task arrays --model lstm:hidden=16 --loss huber --optimizer adam --lr 0.02",
    learn="--batch-size 32 --epochs 10",
    bar=Bar("val_r2", 0.85),
    linear=waves_r2,
    hostile={
        "empty": Hostile(emptied, "too few for the lengths of its arrays"),
        "cut short": Hostile(cut, "bytes, but its"),
        "noise": Hostile(noise, "bytes, but its"),
        "no number": Hostile(
            lambda label, payload: (label, payload[:-4] + np.array(np.inf, "<f4").tobytes()),
            "holds a number that is not finite",
        ),
        "nothing to predict": Hostile(labelled(np.nan), "is not finite", is_skipped=False),
        "two to predict": Hostile(labelled((1.0, 2.0)), "labels of shape (2,)", is_skipped=False),
    },
    overfit="--max-steps 80",
    has_narrow=False,  # its one product is of 4 x 17 x 1, and LSTMs stay float32
    predict=("{folder}/one.npz",),
)


def write_gauges(folder: Path, num_train: int, num_val: int) -> None:
    for seed, (name, count) in enumerate((("train", num_train), ("val", num_val))):
        own_task_data.write(folder / f"{name}.rec", own_task_data.pairs(count, seed))
    (folder / "one.csv").write_text("0.3,0.9\n")


GAUGE = Case(
    name="gauge",
    write=write_gauges,
    flags="--task examples.own_task:Gauge --metric r2 --optimizer adam --lr 0.01 --weight-decay 0",
    learn="--batch-size 32 --epochs 15",
    bar=Bar("val_r2", 0.85),
    linear=gauges_r2,
    hostile={
        "empty": Hostile(emptied, "it is not 2 numbers"),
        "cut short": Hostile(cut, "it is not 2 numbers"),
        "no number": Hostile(
            lambda label, payload: (label, np.array([1, np.nan], "<f4").tobytes()), "it is not 2 numbers"
        ),
        "label is no number": Hostile(labelled(np.nan), "a label that is no number", is_skipped=False),
    },
    predict=("{folder}/one.csv",),
)

RECOMMENDATION = Case(
    name="recommendation",
    write=tastes.write,
    flags="--task recommendation --model deepfm:hidden=16,rate_factor=20 --loss binary_cross_entropy "
    "--optimizer adam --lr 0.01 --weight-decay 0",
    learn="--batch-size 32 --epochs 12",
    bar=Bar("val_auc", 0.9),
    linear=tastes_auc,
    hostile={
        "empty": Hostile(emptied, "too few for the lengths of its arrays"),
        "cut short": Hostile(cut, "bytes, but its"),
        "too long": Hostile(lambda label, payload: (label, payload + b"0000"), "its arrays end at byte"),
        "label is neither": Hostile(labelled(2.0), "its like is 2; a label is 1", is_skipped=False),
        "label is no number": Hostile(labelled(np.nan), "its like is nan", is_skipped=False),
        "two labels": Hostile(labelled((1.0, 0.0)), "labels of shape (2,)", is_skipped=False),
    },
    num_learnt=(2500, 500),
    has_narrow=False,  # a net with a table is no graph
    store="--update servers",
    predict=("{folder}/one.csv",),
)

DETECTION = Case(
    name="detection",
    write=boxes.write_sets,
    flags="--task detection --model ssd_300_mobilenet0.25_voc --image-size 64 --optimizer adam --lr 0.002",
    learn="--image-size 128 --model ssd_512_mobilenet1.0_voc --lr 0.001 --batch-size 32 --epochs 7 --augment none",
    bar=Bar("val_map_50", 0.06),
    linear=boxes.constant_map,
    hostile={
        "empty": Hostile(emptied, "it holds no bytes"),
        "cut short": Hostile(cut, "picture"),
        "noise": Hostile(noise, "picture"),
        "one number": Hostile(labelled(1.0), "one number, not boxes", is_skipped=False),
        "no header": Hostile(labelled((1.0, 0.0, 1.0)), "begins with 1 and 0", is_skipped=False),
        "a number too few": Hostile(labelled((2.0, 6.0, 0.0, 0.1, 0.2, 0.3, 0.4)), "of 7 numbers", False),
        "no number": Hostile(labelled((2.0, 5.0, 0.0, np.nan, 0.2, 0.3, 0.4)), "not finite", False),
        "no such class": Hostile(labelled((2.0, 5.0, 3.0, 0.1, 0.2, 0.3, 0.4)), "a box has class 3", False),
    },
    num_learnt=(1000, 200),
    overfit="--max-steps 60",
    predict=("{folder}/one.png",),
)

YOLO = dataclasses.replace(
    DETECTION,
    name="yolo3",
    flags="--task detection --model yolo3_mobilenet0.25_voc --image-size 64 --optimizer adam --lr 0.002 "
    "--augment mosaic:p=0.5+mixup:p=0.2+expand+iou_crop+flip+letterbox",
    learn="--batch-size 32 --epochs 8 --augment none",
    bar=Bar("val_map_50", 0.06),
)
CENTER_NET = dataclasses.replace(
    DETECTION,
    name="center_net",
    flags="--task detection --model center_net_mobilenetv3_small_duc_voc --image-size 64 --optimizer adam --lr 0.002",
    learn="--batch-size 32 --epochs 8 --augment none",
    bar=Bar("val_map_50", 0.06),
)

SEGMENTATION = Case(
    name="segmentation",
    write=masks.write_sets,
    flags="--task segmentation --model fastscnn_citys --image-size 64 --augment scale_crop+flip+rotate+blur "
    "--optimizer adam --lr 0.003",
    learn="--image-size 96 --augment flip --batch-size 16 --epochs 5",
    bar=Bar("val_miou", 0.7),
    linear=masks.constant_miou,
    hostile={
        "empty": Hostile(emptied, "it has no mask"),
        "cut short": Hostile(cut, "it has no mask"),
        "no mask": Hostile(masks.without_mask, "it has no mask"),
        "too long": Hostile(masks.longer_than_there_is, "longer than the record"),
        "no PNG": Hostile(masks.no_png, "no PNG that can be decoded"),
        "no such class": Hostile(
            masks.change_of_mask(masks.of_unknown_class), "has class 9", is_skipped=False
        ),
        "another size": Hostile(masks.change_of_mask(masks.smaller), "its mask is 96 x 94 pixels"),
    },
    num_learnt=(1000, 200),
    overfit="--augment none --max-steps 80",
    predict=("{folder}/one.png",),
)

ALL = (
    *(CLASSIFICATION, MAJORITY, MULTILABEL, LM, SEQUENCES, TOKENS, REGRESSION, VECTORS, SERIES, GAUGE),
    *(RECOMMENDATION, DETECTION, YOLO, CENTER_NET, SEGMENTATION),
)


def parameters() -> list[Any]:
    """Return the cases as parameters of a fixture; those that are not in CI are slow."""
    # The case that is in CI holds the same promises; classification's are also those of tests/e2e, tests/engine and
    # tests/cluster, most of which train on pictures.
    marks = {True: (), False: (pytest.mark.slow,)}
    return [pytest.param(case, id=case.name, marks=marks[case.is_in_ci]) for case in ALL]
