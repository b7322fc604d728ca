"""The versions and the kinds of runs that tests/golden holds, as plain values: `make.py` writes, tests read them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parent / "versions"
KILLED_STEP = 7  # of 8
COMMON = "--batch-size 8 --threads 1 --epochs 2 --checkpoint-steps 5 --keep-last 1 --keep-best 0"


TASKS = (
    "multilabel",
    "regression",
    "arrays",
    "series",
    "lm",
    "sequence_classification",
    "token_classification",
)


class Version(NamedTuple):
    """A state of the formats: the last commit, or one of the last, that wrote them so.

    `only` names the kinds of runs whose files differ from those of the version before, where that is not all.
    """

    name: str
    commit: str
    only: tuple[str, ...] = ()


VERSIONS = (
    Version("01-first", "0f47240"),
    Version("02-job", "080a3aa", ("plain", "dist_sync", "dist_async", "nadam")),
    Version("03-modules", "56f64d5", ("plain", "bf16", "dist_sync", "dist_async", "table")),
    Version("04-kernels", "959684d", ("plain", "bf16", "dist_sync")),
    Version("05-exact-sums", "2c38f2b", ("plain", "accumulate", "dist_sync", "table")),
    Version("06-tasks", "4405a24", ("plain", "dist_sync", *TASKS)),
    Version(
        "07-seeing",
        "97dfb62",
        ("plain", "defaults", "average", "pruned", "pruned_weights"),
    ),
    Version("08-rule-2", "15fa3ab", ("plain", "dist_sync", "table")),
    Version("09-augment", "ca8c49f", ("plain", "defaults", "arrays")),
    Version("10-rule-3", "35acd1d", ("plain", "loss_scale", "dist_sync", "table")),
    # The newest, until a format changes: then it gets its commit's name, as all others have.
    Version("11-numbers", "HEAD"),
)
NUMBERS = {version.name: number for number, version in enumerate(VERSIONS, start=1)}


class Case(NamedTuple):
    """A kind of run: the first version that has it, its data, and its flags beside COMMON.

    It is killed with its record of KILLED_STEP, and its newest checkpoint is that of step `checkpoint`.
    """

    name: str
    since: int
    data: str
    flags: str
    predict: tuple[str, ...] = ()  # a file of the data, and flags
    checkpoint: int = 5  # in the middle of the second epoch


PICTURES = "--image-size 8 --val-resize 8 --augment resized_crop+flip --lr 0.05"
NET = f"--micro-batch 4 --model golden_nets:build {PICTURES}"
TEXT_NET = "--micro-batch 4 --model bilstm:width=2,hidden=2 --window 16 --optimizer adam --lr 0.01"
ONE = ("one.png",)
CASES = (
    Case("plain", 1, "pictures", f"{NET} --keep-best 1", ONE),
    # What flags left out mean has changed; a run keeps what they meant when it began.
    Case(
        "defaults",
        1,
        "pictures",
        "--batch-size 32 --epochs 8 --model golden_nets:build --image-size 8 --val-resize 8 --lr 0.05",
        ONE,
        checkpoint=6,  # of an epoch of one step
    ),
    Case("ema", 1, "pictures", f"{NET} --ema 0.9 --clip-norm 1 --mixup 0.2", ONE),
    Case("loss_scale", 1, "pictures", f"{NET} --optimizer adam --lr 0.01 --loss-scale 1024", ONE),
    Case("bf16", 1, "pictures", f"{NET} --optimizer adam --lr 0.01 --amp bf16", ONE),
    Case("accumulate", 1, "pictures", f"--accumulate 4 --model golden_nets:build {PICTURES}", ONE),
    Case(
        "dist_sync",
        1,
        "pictures",
        f"{NET} --kvstore dist_sync --num-workers 2 --num-servers 1 --max-restarts 0",
        ONE,
    ),
    Case(
        "dist_async",
        1,
        "pictures",
        f"{NET} --kvstore dist_async --num-workers 1 --num-servers 1 --max-restarts 0",
        ONE,
    ),
    Case(
        "table",
        1,
        "pictures",
        f"--micro-batch 4 --model golden_nets:table {PICTURES} --optimizer sgd:momentum=0 --weight-decay 0 "
        "--kvstore dist_sync --num-workers 2 --num-servers 1 --max-restarts 0",
        ONE,
    ),
    Case("nadam", 2, "pictures", f"{NET} --optimizer nadam --lr 0.01", ONE),
    Case("multilabel", 6, "multilabel", f"{NET} --task multilabel", ONE),
    Case("regression", 6, "regression", f"{NET} --task regression", ONE),
    Case(
        "arrays",
        6,
        "arrays",
        "--micro-batch 4 --task arrays --model mlp:hidden=8 --optimizer adam --lr 0.02",
        ("one.csv",),
    ),
    Case(
        "series",
        6,
        "series",
        "--micro-batch 4 --task arrays --model lstm:hidden=4 --loss huber --optimizer adam --lr 0.02",
        ("one.npz",),
    ),
    Case(
        "lm",
        6,
        "lm",
        "--micro-batch 4 --task lm --model gpt:layers=1,heads=1,width=4 --window 16 --optimizer adamw --lr 0.01",
        ("--prompt", "3a", "--temperature", "0", "--max-tokens", "5"),
    ),
    Case(
        "sequence_classification",
        6,
        "labelled_text",
        f"--task sequence_classification {TEXT_NET}",
        ("one.txt",),
    ),
    Case(
        "token_classification",
        6,
        "tagged_text",
        f"--task token_classification {TEXT_NET}",
        ("one.txt",),
    ),
    Case("average", 7, "pictures", f"{NET} --average 2 --schedule constant --epochs 3", ONE),
    Case("pruned", 7, "pictures", f"{NET} --prune 0.5 --pretrained {{plain}}", ONE),
    Case("pruned_weights", 7, "pictures", f"{NET} --prune 0.5 --prune-by weight --pretrained {{plain}}", ONE),
)


def data_of(version: Version) -> set[str]:
    """Return the names of the data that a version packs: those of its runs, of a whole version all."""
    known = [case for case in CASES if case.since <= NUMBERS[version.name]]
    return {case.data for case in (cases_of(version) if version.only else known)}


# Searches are over data that a module gives, so that they may lie anywhere.
SEARCHES = ("07-seeing", "11-numbers")
SEARCH_BASE = (
    "train: golden_nets:pictures\nval: golden_nets:pictures\nmodel: golden_nets:build\nimage_size: 8\nval_resize: 8\n"
    "augment: none\nbatch_size: 8\nmicro_batch: 4\nepochs: 2\ncheckpoint_steps: 3\nkeep_last: 1\nthreads: 1\n"
)
SEARCH_SPACE = "lr: [0.01, 0.1, 0.2]\n"
SEARCH_FLAGS = ("--sampler", "grid", "--pruner", "none", "--quiet")


def cases_of(version: Version) -> list[Case]:
    """Return the kinds of runs that there are of a version."""
    known = [case for case in CASES if case.since <= NUMBERS[version.name]]
    return [case for case in known if case.name in version.only or not version.only]
