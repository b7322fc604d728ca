"""The matrix of mappings: a run's records and its last checkpoint are those of one device to the bit, whoever computes.

A job of its own for each row of `MATRIX`, through servers, of several workers among themselves, and with servers that
move the weights. Rows are chosen so
that each value meets each value of every other column.
Steps of another kind, such as one that grows 2**20 times, are `test_rare_steps.py`'s; many cuts on devices alone
`tests/engine/train/test_mapping.py`'s.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Iterator, Sequence

import pytest

from mxtrain import native
from tests.support.amp import BF16, needs_bf16
from tests.support.commands import Command
from tests.support.runs import assert_same_checkpoint, assert_same_end, curve, newest, records

# 64 pictures: two steps of 24 in an epoch and one of 16. These are 12, 5 or 3 micro-batches, and 8, 4 or 2. Those of 5
# end with a shorter one, at the end of an epoch with a single picture.
FLAGS = (
    "--image-size 16 --val-resize 16 --augment pad_crop:pad=2 --batch-size 24 --epochs 3 --lr 0.01 --log none"
)
NET = "--model benchmarks.same_curve.nets:"
# Columns, and the flags of their values.
COLUMNS = {
    "workers": {each: f"--num-workers {each}" for each in ("1", "2", "3", "4")},
    "servers": {each: f"--num-servers {each}" for each in ("1", "2")},
    "devices": {"1": "--devices cpu", "2": "--devices cpu:0,1", "3": "--devices cpu:0,1,2"},
    "micro_batch": {each: f"--micro-batch {each}" for each in ("2", "5", "8")},
    "net": {"plain": NET + "plain", "norm": NET + "with_batch_norm", "dropout": NET + "with_dropout"},
    "clip": {"no_clip": "", "clip_norm": "--clip-norm 0.5", "clip_value": "--clip-value 0.02"},
    "average": {"no_ema": "", "ema": "--ema 0.9"},
    "mixing": {"unmixed": "", "mixup": "--mixup 0.4", "cutmix": "--cutmix 1"},
    "optimizer": {"sgd": "--optimizer sgd", "adamw": "--optimizer adamw", "lamb": "--optimizer lamb"},
    "numbers": {"float32": "", "bf16": BF16, "scaled": "--loss-scale dynamic"},
}
STORE = ("workers", "servers")  # that one process does not have
MATRIX = """
    1 1 2 8 norm    clip_norm  no_ema unmixed lamb  scaled
    1 1 3 2 plain   no_clip    ema    mixup   lamb  float32
    1 2 1 2 dropout clip_value ema    cutmix  sgd   bf16
    1 2 1 5 plain   no_clip    no_ema unmixed adamw scaled
    2 1 1 8 norm    clip_value no_ema cutmix  adamw float32
    2 2 1 2 plain   clip_value ema    mixup   sgd   scaled
    2 2 2 5 norm    no_clip    no_ema cutmix  lamb  bf16
    2 2 3 5 dropout clip_norm  no_ema unmixed sgd   float32
    3 1 1 5 dropout clip_value no_ema mixup   lamb  bf16
    3 1 2 2 plain   clip_norm  no_ema cutmix  sgd   scaled
    3 2 2 5 dropout no_clip    ema    cutmix  adamw float32
    3 2 3 8 norm    clip_value ema    unmixed sgd   scaled
    4 1 3 8 plain   no_clip    no_ema cutmix  sgd   bf16
    4 2 1 5 norm    clip_norm  no_ema mixup   lamb  float32
    4 2 2 8 dropout clip_value ema    mixup   adamw scaled
    4 2 3 2 norm    clip_norm  ema    unmixed adamw bf16
"""
ROWS = [dict(zip(COLUMNS, line.split())) for line in MATRIX.strip().splitlines()]
FAST = (6, 13)
WITH_PEERS = [number for number, row in enumerate(ROWS) if row["workers"] != "1"]
FAST_WITH_PEERS = 4
FAST_WITH_OWNERS = 11
# A worker that holds layers has one device, and no averages.
WITH_LAYERS = [
    number for number, row in enumerate(ROWS) if row["devices"] == "1" and row["average"] == "no_ema"
]
# With --stages the devices of a worker are one after the other.
WITH_STAGES = [number for number, row in enumerate(ROWS) if row["devices"] != "1"]
FAST_WITH_STAGES = 11
# Kernels that other machines have, and another number of threads: variables, flags, and rows that float32 computes.
KERNELS = {
    "AVX2": ({"DNNL_MAX_CPU_ISA": "AVX2", "OPENBLAS_CORETYPE": "Haswell"}, ""),
    "SSE41": ({"DNNL_MAX_CPU_ISA": "SSE41", "OPENBLAS_CORETYPE": "Nehalem"}, ""),
    "two threads": ({}, "--threads 2"),
}
WITH_KERNELS = (3, 5, 7, 10, 13)


def name(row: dict[str, str]) -> str:
    counts = [f"{row[column]} {column}" for column in ("workers", "servers", "devices")]
    return ", ".join([*counts, f"micro-batches of {row['micro_batch']}", *list(row.values())[4:]])


def parameters(numbers: Sequence[int], fast: Sequence[int]) -> Iterator[object]:
    for number in numbers:
        row = ROWS[number]
        marks = [] if number in fast else [pytest.mark.slow]  # those of `fast` hold it in small
        yield pytest.param(row, id=name(row), marks=[*marks, *[needs_bf16] * (row["numbers"] == "bf16")])


def test_each_value_of_the_matrix_meets_each_of_every_other_column() -> None:
    for one, other in itertools.combinations(COLUMNS, 2):
        met = {(row[one], row[other]) for row in ROWS}
        assert met == set(itertools.product(COLUMNS[one], COLUMNS[other])), (one, other)


@pytest.mark.timeout(200)
@pytest.mark.parametrize("row", parameters(range(len(ROWS)), FAST))
def test_a_job_is_the_run_of_one_device_to_the_bit(
    row: dict[str, str], shapes: Path, tmp_path: Path, command: Command
) -> None:
    compare(row, shapes, tmp_path, command, "--threads 1")
    state = json.loads((newest(tmp_path / "job") / "state.json").read_text())
    assert (state["narrow_share"] > 0) == (row["numbers"] == "bf16")
    assert state["scale"]["scale"] == (2.0**16 if row["numbers"] == "scaled" else 1)


@pytest.mark.timeout(200)
@pytest.mark.parametrize("row", parameters(WITH_PEERS, [FAST_WITH_PEERS]))
def test_workers_that_sum_among_themselves_are_one_device_to_the_bit(
    row: dict[str, str], shapes: Path, tmp_path: Path, command: Command
) -> None:
    compare({**row, "servers": "0"}, shapes, tmp_path, command, "--threads 1")
    assert not [*(tmp_path / "job" / "logs").glob("server*")]


@pytest.mark.timeout(200)
@pytest.mark.parametrize("row", parameters(range(len(ROWS)), [FAST_WITH_OWNERS]))
def test_weights_that_servers_move_are_those_of_one_device_to_the_bit(
    row: dict[str, str], shapes: Path, tmp_path: Path, command: Command
) -> None:
    compare(row, shapes, tmp_path, command, "--threads 1", "--update servers")


@pytest.mark.slow  # tests/engine/train/held has one process, tests/cluster/sums servers that own weights
@pytest.mark.timeout(200)
@pytest.mark.parametrize("row", parameters(WITH_LAYERS, WITH_LAYERS))
def test_layers_that_come_and_go_are_those_of_one_device_to_the_bit(
    row: dict[str, str], shapes: Path, tmp_path: Path, command: Command
) -> None:
    compare(row, shapes, tmp_path, command, "--threads 1", "--update servers --hold layers", "--remat")


@pytest.mark.slow  # tests/engine/train/staged has one process
@pytest.mark.timeout(200)
@pytest.mark.parametrize("row", parameters(WITH_STAGES, [FAST_WITH_STAGES]))
def test_layers_on_several_devices_are_those_of_one_to_the_bit(
    row: dict[str, str], shapes: Path, tmp_path: Path, command: Command
) -> None:
    compare(row, shapes, tmp_path, command, "--threads 1", f"--stages {row['devices']}")


@pytest.mark.slow  # the stores differ in who sums and who moves, and the row above has the one that is most used
@pytest.mark.timeout(200)
@pytest.mark.parametrize("row", parameters(WITH_STAGES, WITH_STAGES))
@pytest.mark.parametrize("store", ["allreduce", "--update servers"])
def test_so_they_are_in_other_stores(
    row: dict[str, str], store: str, shapes: Path, tmp_path: Path, command: Command
) -> None:
    row, update = ({**row, "servers": "0"}, "") if store == "allreduce" else (row, store)
    if row["workers"] != "1" or update:
        compare(row, shapes, tmp_path, command, "--threads 1", f"--stages {row['devices']} {update}")


@pytest.mark.slow  # the rows above have this machine's best kernels
@pytest.mark.timeout(300)
@pytest.mark.parametrize("kernels", KERNELS)
@pytest.mark.parametrize(
    "row", [pytest.param(ROWS[number], id=name(ROWS[number])) for number in WITH_KERNELS]
)
def test_the_same_with_kernels_of_other_machines(
    row: dict[str, str],
    kernels: str,
    shapes: Path,
    tmp_path: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    variables, flags = KERNELS[kernels]
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    compare(row, shapes, tmp_path, command, flags or "--threads 1")
    used = json.loads((newest(tmp_path / "job") / "state.json").read_text())["kernels"]
    if variables:
        others = {"onednn": kernels, "openblas": variables["OPENBLAS_CORETYPE"]}
        assert used == {**others, **native.kernels()}  # no variable is another machine's mxtrain


def compare(
    row: dict[str, str],
    shapes: Path,
    folder: Path,
    command: Command,
    more: str,
    of_job: str = "",
    of_one_device: str = "",
) -> None:
    """Run a row as it is, with 0 servers over allreduce, and in one process with one device."""
    recipe = [*FLAGS.split(), *more.split()]
    for column, values in COLUMNS.items():
        if column not in (*STORE, "devices"):
            recipe += values[row[column]].split()
    columns = (*(STORE if row["servers"] != "0" else ("workers",)), "devices")
    store = "dist_sync" if "servers" in columns else "allreduce"
    mapping = " ".join(COLUMNS[column][row[column]] for column in columns)
    job = ["--kvstore", store, "--start-timeout", "60", *mapping.split(), *of_job.split()]
    for out, flags in (("alone", of_one_device.split()), ("job", job)):
        data = ["--train", shapes / "train.rec", "--val", shapes / "val.rec", "--out", folder / out]
        done = command("mxtrain.fit", *data, *recipe, *flags)
        assert done.returncode == 0, done.stderr
    trained = [record for record in records(folder / "alone") if record["kind"] == "train"]
    assert len(trained) == len({record["gradient_norm"] for record in trained}) == 9
    if "layers" not in of_job:
        assert_same_end(folder / "job", folder / "alone")
        return
    job, alone = (  # who holds layers has no record of all of them at once
        [record for record in curve(folder / out) if record["kind"] != "layers"] for out in ("job", "alone")
    )
    assert job == alone
    assert_same_checkpoint(folder / "job", folder / "alone")
