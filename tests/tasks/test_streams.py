"""A run over a stream of the user's: as exact as the stream itself, and clear where that is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from mxtrain.core.errors import BUG, DATA, USAGE
from tests.support.commands import Command
from tests.support.runs import assert_same_end, curve, has_step, newest, records, wait_until
from tests.support.user_code import majority_data
from tests.tasks.cases import MAJORITY
from tests.tasks.given import Given

STREAMS = "tests.support.user_code.user_streams"
FLAGS = "--epoch-steps 6 --checkpoint-steps 4"
IN_SMALL = (
    pytest.mark.slow
)  # tests/unit/data/user/test_streams.py and tests/unit/tasks/test_task.py hold it without a run
CLUSTER = "--kvstore dist_sync --start-timeout 60 --num-workers 2"


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory, command: Command) -> Given:
    folder = tmp_path_factory.mktemp("words")
    majority_data.write(folder / "val.rec", 26, seed=2)
    return Given(MAJORITY, folder, command)


def fit(words: Given, out: Path, stream: str, flags: str = "", code: int = 0) -> str:
    return words.fit(out, f"--train {STREAMS}:{stream} {FLAGS} {flags}", code=code)


@pytest.fixture(scope="module")
def undisturbed(words: Given, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("undisturbed")
    fit(words, out, "endless")
    return out


def test_epochs_are_as_long_as_said(undisturbed: Path) -> None:
    assert [each["step"] for each in records(undisturbed) if each["kind"] == "eval"] == [6, 12, 18]
    assert [each["epoch"] for each in records(undisturbed) if each["kind"] == "train"] == [1] * 6 + [
        2
    ] * 6 + [3] * 6


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("stream", "flags"),
    [
        ("endless", CLUSTER),
        pytest.param(
            "iterable", "--devices cpu:0,1,2", marks=pytest.mark.slow
        ),  # two workers hold it in small
        pytest.param("endless", CLUSTER.replace("2", "4"), marks=pytest.mark.slow),
    ],
)
def test_every_mapping_learns_it_to_the_bit(
    stream: str, flags: str, words: Given, undisturbed: Path, tmp_path: Path
) -> None:
    fit(words, tmp_path, stream, flags)
    assert_same_end(tmp_path, undisturbed)


AT_NINE = (
    "step-00000006",
    "step-00000008",
)  # the newest checkpoint there; the later one may not be written yet


def test_a_killed_run_goes_on_to_the_bit(words: Given, undisturbed: Path, tmp_path: Path) -> None:
    words.kill_at(9, tmp_path, f"--train {STREAMS}:endless {FLAGS}")
    assert newest(tmp_path).name in AT_NINE
    assert "resuming from" in fit(words, tmp_path, "endless")
    assert_same_end(tmp_path, undisturbed)


@pytest.mark.slow  # the two tests above hold each half
@pytest.mark.timeout(200)
def test_a_killed_job_goes_on_to_the_bit(words: Given, undisturbed: Path, tmp_path: Path) -> None:
    with words.started(tmp_path, f"--train {STREAMS}:endless {FLAGS} {CLUSTER}") as run:
        wait_until(lambda: has_step(tmp_path, 9), run)
        run.kill()
        run.wait()
    fit(words, tmp_path, "endless", CLUSTER)
    assert_same_end(tmp_path, undisturbed)


@pytest.mark.slow  # tests/unit/data/user/test_streams.py holds it without a run
def test_what_does_not_come_again_goes_on_and_says_so(words: Given, tmp_path: Path) -> None:
    words.kill_at(9, tmp_path, f"--train {STREAMS}:socket {FLAGS}")
    assert newest(tmp_path).name in AT_NINE
    before = curve(tmp_path)
    said = fit(words, tmp_path, "socket")
    assert "does not begin with the samples it began with before" in said
    after = curve(tmp_path)
    assert [each["step"] for each in after if each["kind"] == "train"] == list(range(1, 19))
    assert after[:6] == before[:6]


@pytest.mark.timeout(200)
def test_workers_that_get_other_samples_are_refused(words: Given, tmp_path: Path) -> None:
    said = fit(words, tmp_path, "of_each_worker", CLUSTER, code=USAGE)
    assert "worker-1" in said and "96 samples" in said


@pytest.mark.parametrize(
    ("stream", "code", "said"),
    [
        ("damaged", DATA, f"{STREAMS}:damaged: sample 40 of the stream: its words are not numbers below 10"),
        ("failing", BUG, f"--train {STREAMS}:failing: ZeroDivisionError: the source broke"),
        pytest.param(
            "short", DATA, "short: ended after 40 samples; make it endless, or give fewer", marks=IN_SMALL
        ),
        pytest.param("pairs_no_more", USAGE, "gives a str for sample 40; give a pair (x, y)", marks=IN_SMALL),
    ],
)
def test_what_goes_wrong_in_a_stream_is_named(
    stream: str, code: int, said: str, words: Given, tmp_path: Path
) -> None:
    assert said in fit(words, tmp_path, stream, code=code).splitlines()[-1]


def test_classes_out_of_range_are_found_when_they_come(command: Command, tmp_path: Path) -> None:
    flags = (
        "--model tests.support.nets.training_steps:quick_net --image-size 16 --augment none --num-classes 3"
    )
    flags += " --batch-size 16 --micro-batch 4 --epoch-steps 4 --epochs 2 --log none --threads 1"
    done = command("mxtrain.fit", "--train", f"{STREAMS}:pictures", *flags.split(), "--out", tmp_path)
    assert done.returncode == DATA, done.stderr
    assert "sample 40 of the stream: its label is 3, but there are 3 classes" in done.stderr
