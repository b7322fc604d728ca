"""Steps of other kinds and changes in the middle, over real jobs: to the bit those of one undisturbed device.

Sums alone, of more kinds, are `test_exact_sums.py`'s; ordinary steps `test_mappings.py`'s.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from mxtrain import config
from mxtrain.data.loading import run_plan, sample_requests
from mxtrain.data.records import record_sets
from tests.support.commands import Command
from tests.support.jobs.cluster_run import flags
from tests.support.losses import rare_steps
from tests.support.runs import assert_same_end, curve, newest, records

NUM_STEPS = 30
RARE = [
    *("--model", "tests.support.losses.rare_steps:net", "--loss", "tests.support.losses.rare_steps:loss"),
    *("--batch-size", "10", "--micro-batch", "2", "--max-steps", str(NUM_STEPS), "--max-bad-steps", "20"),
    *("--optimizer", "sgd:momentum=0", "--weight-decay", "0", "--schedule", "constant"),
    *("--lr", str(rare_steps.RATE), "--clip-value", str(rare_steps.CLIP), "--loss-scale", "dynamic"),
]
STORE = ["--kvstore", "dist_sync", "--start-timeout", "60"]
MAPPINGS = {
    "three workers, two servers": [*STORE, "--num-workers", "3", "--num-servers", "2"],
    "two workers of two devices": [*STORE, "--num-workers", "2", "--devices", "cpu:0,1"],
    "four workers": [*STORE, "--num-workers", "4"],
    "three workers without servers": ["--kvstore", "allreduce", *STORE[2:], "--num-workers", "3"],
    "three devices": ["--devices", "cpu:0,1,2"],
}


@pytest.fixture(scope="module")
def alone(digits: Path, tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    """The run folder of one process with one device."""
    out = tmp_path_factory.mktemp("alone") / "run"
    done = command("mxtrain.fit", *flags(digits, out, *RARE))
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    "mapping",
    [next(iter(MAPPINGS)), *(pytest.param(each, marks=pytest.mark.slow) for each in [*MAPPINGS][1:])],
)
def test_a_step_of_any_kind_is_that_of_one_device(
    mapping: str, digits: Path, alone: Path, tmp_path: Path, command: Command
) -> None:
    done = command("mxtrain.fit", *flags(digits, tmp_path / "run", *RARE, *MAPPINGS[mapping]))
    assert done.returncode == 0, done.stderr
    assert_same_end(tmp_path / "run", alone)


def test_the_steps_of_one_device_are_of_all_kinds(digits: Path, alone: Path) -> None:
    steps = records(alone, "train")
    assert len(steps) == NUM_STEPS
    assert not any(step["applied"] for step in steps[:7]), "the first ones overflow"
    assert steps[7]["applied"] and steps[7]["loss_scale"] == 2.0**9
    norms = [step["gradient_norm"] for step in steps if step["applied"]]
    growth = [later / max(earlier, 1e-9) for earlier, later in zip(norms, norms[1:])]
    assert max(growth) > 2**30 and sorted(growth)[-2] > 2**19
    assert min(growth[:-6]) < 2**-19 and norms[-1] == norms[-2] == 0
    assert all(np.isfinite(step["loss"]) for step in steps), "what was not finite were gradients"

    labels = record_sets.open_set(str(digits / "train.rec")).labels()
    run = config.read(alone / "config.yaml")
    samples_of, plan = sample_requests.epoch_sampler(run, labels), run_plan.of_run(run, len(labels))
    requests = sample_requests.training_requests(samples_of, plan, range(NUM_STEPS))
    num_bad = np.zeros(
        NUM_STEPS, int
    )  # micro-batches with a gradient that is no number, if it is time for them
    for request in requests:
        num_bad[request.step] += rare_steps.RARE_LABEL in labels[request.samples]
    applied = np.array([step["applied"] for step in steps])
    first = 7 + [*applied[7:]].index(False)
    last = first + [*applied[first:]].index(True)
    assert np.array_equal(num_bad[first:last] > 0, [True] * (last - first)) and num_bad[last] == 0
    assert 1 in num_bad[first:last], "a single micro-batch, so a single worker, made all skip"


RECIPE = [
    "--schedule",
    "constant",
    "--optimizer",
    "adamw",
    "--ema",
    "0.9",
    "--mixup",
    "0.2",
    "--clip-norm",
    "1",
]


@pytest.mark.slow  # test_head_chunks.py goes on in one process where a job ended
@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    "mappings",
    [
        ["three workers, two servers", "three devices"],
        pytest.param([*MAPPINGS], marks=pytest.mark.slow),  # two of them hold it in small
    ],
    ids=["two", "all"],
)
def test_a_run_may_go_on_with_another_mapping_again_and_again(
    mappings: list[str], digits: Path, tmp_path: Path, command: Command
) -> None:
    last = until(4 * len(mappings))
    done = command("mxtrain.fit", *flags(digits, tmp_path / "one", *RECIPE, *last))
    assert done.returncode == 0, done.stderr
    for number, name in enumerate(mappings, start=1):
        line = flags(digits, tmp_path / "many", *RECIPE, *MAPPINGS[name], *until(4 * number))
        done = command("mxtrain.fit", *line)
        assert done.returncode == 0, done.stderr
    assert_same_steps(tmp_path / "many", tmp_path / "one")


@pytest.mark.slow  # tests/engine/train/test_state.py has one and two devices
@pytest.mark.timeout(200)
def test_a_checkpoint_without_a_grid_goes_on_alike_on_every_mapping(
    digits: Path, tmp_path: Path, command: Command
) -> None:
    """As after a step out of the grid's reach: it begins anew, everywhere with the same micro-batch."""
    done = command("mxtrain.fit", *flags(digits, tmp_path / "before", *RECIPE, *until(4)))
    assert done.returncode == 0, done.stderr
    before = newest(tmp_path / "before")
    (before / "grid.params").unlink()
    listed = json.loads((before / "manifest.json").read_text())
    del listed["grid.params"]
    (before / "manifest.json").write_text(json.dumps(listed))
    for name, mapping in (("one", []), ("three", MAPPINGS["three workers, two servers"])):
        shutil.copytree(tmp_path / "before", tmp_path / name)
        done = command("mxtrain.fit", *flags(digits, tmp_path / name, *RECIPE, *mapping, *until(8)))
        assert done.returncode == 0, done.stderr
    assert_same_steps(tmp_path / "three", tmp_path / "one")


def until(step: int) -> list[str]:
    return ["--max-steps", str(step)]


def assert_same_steps(out: Path, expected: Path) -> None:
    """Equal but for evaluations, which are made wherever a run ends."""
    trained = [[record for record in curve(each) if record["kind"] == "train"] for each in (out, expected)]
    assert trained[0] == trained[1] != []
    files = [
        {path.name: path.read_bytes() for path in newest(each).glob("*.params")} for each in (out, expected)
    ]
    assert len(files[0]) == 4 and files[0] == files[1], "weights, averages, moments and the grid"
