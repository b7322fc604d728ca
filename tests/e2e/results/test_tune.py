"""`mxtrain.tune` on digits: trials are runs, and a search that was killed or stopped goes on as if it had not."""

from __future__ import annotations

import copy
import csv
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable

import pytest

from mxtrain import config
from mxtrain.tune import __main__ as tune
from tests.support import process_tree, runs
from tests.support.commands import ROOT, Command
from tests.support.processes.warm_start import WarmProcess

pytest.importorskip("optuna")

BASE = """
model: small_cnn
image_size: 16
val_resize: 16
augment: none
batch_size: 256
epochs: 1
evaluate_steps: 3
score: loss
log: none
threads: 1
"""
GRID = "lr: [0.01, 0.003]\noptimizer: [adamw, sgd]\n"
RANGES = """
lr: {low: 1e-3, high: 1, log: true}
optimizer:
  adamw:
  sgd: {momentum: {low: 0.5, high: 0.9}}
"""
BY_GRID = ("--sampler", "grid", "--pruner", "none")
TWICE = 1  # a seed that draws one of two values twice
DEADLINE_SECONDS = 100


class Search:
    """The arguments of a search in a folder, and what it leaves."""

    def __init__(self, folder: Path, digits: Path, space: str = GRID, base: str = BASE):
        folder.mkdir(exist_ok=True)
        data = f"train: {digits / 'train.rec'}\nval: {digits / 'val.rec'}\n"
        (folder / "base.yaml").write_text(base + data)
        (folder / "space.yaml").write_text(space)
        self.out = folder / "out"
        files = ("--config", folder / "base.yaml", "--space", folder / "space.yaml", "--out", self.out)
        self.arguments = [str(each) for each in files]

    def rows(self) -> list[dict[str, str]]:
        """What a search keeps of its trials, but for times."""
        with (self.out / "trials.csv").open() as file:
            return [{name: row[name] for name in row if name != "seconds"} for row in csv.DictReader(file)]

    def folder(self, number: int) -> Path:
        return self.out / "trials" / f"{number:04d}"

    def under_way(self, *arguments: object) -> WarmProcess:
        return WarmProcess("mxtrain.tune", [*self.arguments, *map(str, arguments)], ROOT)


def wait_until(happened: Callable[[], object]) -> None:
    end = time.monotonic() + DEADLINE_SECONDS
    while not happened():
        assert time.monotonic() < end, f"not within {DEADLINE_SECONDS} s"
        time.sleep(0.005)


def assert_same(found: Search, expected: Search) -> None:
    assert found.rows() == expected.rows()
    for number in range(len(expected.rows())):
        runs.assert_same_end(found.folder(number), expected.folder(number))


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory, digits: Path, command: Command) -> Search:
    """A grid of four points, searched without disturbance."""
    search = Search(tmp_path_factory.mktemp("searched"), digits)
    done = command("mxtrain.tune", *search.arguments, *BY_GRID)
    assert done.returncode == 0, done.stderr
    (search.out / "said").write_text(done.stdout + done.stderr)
    return search


def test_a_grid_has_a_run_for_each_point(searched: Search, digits: Path) -> None:
    rows = searched.rows()
    assert [(row["lr"], row["optimizer"], row["outcome"]) for row in rows] == [
        (lr, optimizer, "done") for lr in ("0.01", "0.003") for optimizer in ("adamw", "sgd")
    ]
    for number, row in enumerate(rows):
        losses = [str(each["val_loss"]) for each in runs.records(searched.folder(number), "eval")]
        assert len(losses) == 3 and row["val_loss"] == min(losses, key=float)
    best = min(rows, key=lambda row: float(row["val_loss"]))
    said = (searched.out / "said").read_text()
    assert f"best val_loss {float(best['val_loss']):.6g}, trial {best['trial']}; " in said
    assert "; 4 of 4\n" in said and "4 trials: 4 done" in said

    found = config.read(searched.out / "best.yaml")
    assert (str(found.optim.lr), found.optim.optimizer) == (best["lr"], best["optimizer"])
    assert (found.output.out, found.data.val) == (str(searched.out / "best"), str(digits / "val.rec"))


@pytest.mark.slow  # tests/unit/tune holds what a search keeps and goes on with
def test_a_search_that_was_killed_goes_on_with_the_same_trials(
    searched: Search, tmp_path: Path, digits: Path, command: Command
) -> None:
    search = Search(tmp_path, digits)
    with search.under_way(*BY_GRID) as process:
        wait_until(lambda: runs.has_step(search.folder(1), 4))
        children = process_tree.children(process.pid)
        process.kill()
    assert children
    wait_until(lambda: not any(process_tree.command_line(child) for child in children))
    assert len(search.rows()) == 1
    first = (search.folder(0) / "metrics.jsonl").read_bytes()

    again = command("mxtrain.tune", *search.arguments, *BY_GRID)
    assert again.returncode == 0, again.stderr
    assert "going on: 1 of 4 trials have ended, 1 were under way" in again.stderr
    assert first == (search.folder(0) / "metrics.jsonl").read_bytes()
    assert_same(search, searched)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trials", "0"], "--trials: '0': give a whole number from 1 on"),
        (["--timeout", "soon"], "--timeout: 'soon': give seconds above 0"),
        (["--trials", "3", *BY_GRID], "the grid has 4 points; give 4"),
        (["--trials", "5"], "has no more than 4 points; give --sampler grid"),
        (["--config", "nowhere.yaml"], "--config nowhere.yaml: No such file"),
        (["--space", "nowhere.yaml"], "--space nowhere.yaml: No such file"),
        (["--trial", "3"], "unknown flag --trial; did you mean '--trials'?"),
        (["--trials", "4"], "holds another search: --sampler was 'grid' and is 'tpe'"),
        ([*BY_GRID, "--", "--batch-size", "32"], "batch_size in --config was '256' and is '32'"),
        ([*BY_GRID, "--", "--score", "f7"], "--score f7: no number of this run's evaluations"),
        ([*BY_GRID, "--", "--vall", "x.rec"], "unknown flag --vall; did you mean '--val'?"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(
    searched: Search, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(searched.out.rglob("*"))
    assert tune.main([*searched.arguments, *arguments]) == 2
    said = capsys.readouterr().err
    assert message in said and said.count("\n") == 1
    assert sorted(searched.out.rglob("*")) == before


def test_a_page_that_cannot_be_written_is_told_after_the_table(
    searched: Search, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All trials have ended, and only the page is made again."""
    search = copy.copy(searched)
    search.out = Path(shutil.copytree(searched.out, tmp_path / "out"))
    search.arguments = [*searched.arguments, "--out", str(search.out)]
    (search.out / "tune.html").unlink()
    (search.out / "tune.html").mkdir()
    assert tune.main([*search.arguments, *BY_GRID]) == 2
    said = capsys.readouterr()
    assert "4 trials: 4 done" in said.out and said.out.endswith(f"best.yaml, {search.out}/trials.csv\n")
    last = said.err.splitlines()[-1]
    assert last.startswith(f"mxtrain.tune: {search.out}/tune.html: cannot be written (Is a directory)"), last
    assert not (search.out / "tune.html.writing").exists()


def test_without_val_there_is_nothing_to_search_by(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    search = Search(tmp_path, tmp_path)
    (tmp_path / "base.yaml").write_text("train: t.rec")
    assert tune.main(search.arguments) == 2
    assert "--val is missing" in capsys.readouterr().err and not search.out.exists()


# The rest is slow: test_a_search_that_was_killed_goes_on_with_the_same_trials holds the promise of it in small, and
# tests/unit/tune what is drawn, pruned, and made of exit codes.


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_kills_at_any_moment_change_no_trial_of_tpe_and_pruning(tmp_path: Path, digits: Path) -> None:
    """Started as a user starts it; killed six times, at places that a clock chooses."""
    base = BASE.replace("epochs: 1", "epochs: 2")
    whole, killed = (Search(tmp_path / name, digits, RANGES, base) for name in ("whole", "killed"))
    flags = ["--trials", "12"]
    started(whole, *flags).wait(DEADLINE_SECONDS * 3)
    for number in range(6):
        process = started(killed, *flags)
        time.sleep(1.0 + 0.7 * number)
        process.kill()
        process.wait(DEADLINE_SECONDS)
    assert started(killed, *flags).wait(DEADLINE_SECONDS * 3) == 0
    assert {"done", "pruned"} <= {row["outcome"] for row in whole.rows()}
    assert killed.rows() == whole.rows()
    assert all(int(row["evaluations"]) < 6 for row in whole.rows() if row["outcome"] == "pruned")
    for number, row in enumerate(whole.rows()):
        if row["outcome"] == "done":
            runs.assert_same_end(killed.folder(number), whole.folder(number))


def started(search: Search, *arguments: object, **options: object) -> subprocess.Popen[bytes]:
    line = [sys.executable, "-m", "mxtrain.tune", *search.arguments, *map(str, arguments)]
    with (search.out.parent / "said").open("ab") as said:
        return subprocess.Popen(line, cwd=ROOT, stdout=said, stderr=said, **options)  # type: ignore[call-overload,no-any-return]


@pytest.mark.slow
def test_trials_beside_each_other_are_those_of_one_after_the_other(
    searched: Search, tmp_path: Path, digits: Path, command: Command
) -> None:
    search = Search(tmp_path, digits)
    with search.under_way(*BY_GRID, "--jobs", 2) as process:
        wait_until(lambda: runs.has_step(search.folder(0), 2) and runs.has_step(search.folder(1), 2))
        cores = [os.sched_getaffinity(child) for child in process_tree.children(process.pid)]
        process.kill()
    assert len(cores) == 2 and (len(os.sched_getaffinity(0)) < 2 or not cores[0] & cores[1])
    assert command("mxtrain.tune", *search.arguments, *BY_GRID, "--jobs", 3).returncode == 0
    assert sorted(map(str, search.rows())) == sorted(map(str, searched.rows()))
    for number in range(4):
        runs.assert_same_end(search.folder(number), searched.folder(number))


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stop_request_leaves_checkpoints_and_the_search_goes_on(
    searched: Search, tmp_path: Path, digits: Path, command: Command, number: int, code: int
) -> None:
    search = Search(tmp_path, digits)
    process = started(search, *BY_GRID)
    wait_until(lambda: runs.has_step(search.folder(1), 2))
    process.send_signal(number)
    assert process.wait(DEADLINE_SECONDS) == code
    assert "stopped after 1 of 4 trials; the same command goes on" in (tmp_path / "said").read_text()
    assert runs.newest(search.folder(1)) and (search.out / "tune.html").exists()
    assert command("mxtrain.tune", *search.arguments, *BY_GRID).returncode == 0
    assert_same(search, searched)


@pytest.mark.slow
def test_timeout_ends_the_search_and_another_time_it_goes_on(
    searched: Search, tmp_path: Path, digits: Path, command: Command
) -> None:
    search = Search(tmp_path, digits)
    for _ in range(20):
        done = command("mxtrain.tune", *search.arguments, *BY_GRID, "--timeout", 4)
        assert done.returncode == 0, done.stderr
        if "stopped by --timeout" not in done.stdout:
            break
    assert_same(search, searched)


@pytest.mark.slow
def test_a_trial_that_is_killed_is_run_again_and_one_that_always_fails_is_given_up(
    searched: Search, tmp_path: Path, digits: Path, command: Command
) -> None:
    search = Search(tmp_path / "killed", digits)
    with search.under_way(*BY_GRID) as process:
        wait_until(lambda: runs.has_step(search.folder(0), 3))
        os.kill(process_tree.children(process.pid)[0], signal.SIGKILL)
        assert process.wait(DEADLINE_SECONDS) == 0
    assert_same(search, searched)

    failing = "model: [small_cnn, 'tests.support.user_code.user_failing:late_net']\n"
    search = Search(tmp_path / "failing", digits, failing)
    done = command("mxtrain.tune", *search.arguments, *BY_GRID)
    assert done.returncode == 0, done.stderr
    assert [row["outcome"] for row in search.rows()] == ["done", "failed"]
    assert "3 times without coming further" in search.rows()[1]["reason"]


@pytest.mark.slow
def test_a_diverged_trial_is_a_bad_one_and_a_refused_first_one_the_end(
    tmp_path: Path, digits: Path, command: Command
) -> None:
    search = Search(tmp_path / "diverged", digits, "optimizer: [sgd]\nlr: [1e9, 0.01]\n")
    done = command("mxtrain.tune", *search.arguments, *BY_GRID)
    assert done.returncode == 0, done.stderr
    assert [row["outcome"] for row in search.rows()] == ["diverged", "done"]

    search = Search(
        tmp_path / "refused", digits, "model: ['tests.support.nets.user_net:nothing', small_cnn]\n"
    )
    done = command("mxtrain.tune", *search.arguments, *BY_GRID)
    assert done.returncode == 2 and "trial 0: --model tests.support.nets.user_net:nothing: " in done.stderr
    (tmp_path / "refused" / "space.yaml").write_text("model: [small_cnn]\n")  # put right
    assert command("mxtrain.tune", *search.arguments, *BY_GRID).returncode == 0


@pytest.mark.slow
def test_a_trial_whose_score_is_never_finite_counts_as_failed(
    tmp_path: Path, digits: Path, command: Command
) -> None:
    metrics = "tests.support.user_code.user_metrics:no_root", "tests.support.user_code.user_metrics:root"
    space = f"metric: ['{metrics[0]}', '{metrics[1]}']\n"
    base = BASE.replace("score: loss", f"metric: {metrics[1]}\nscore: root")
    search = Search(tmp_path, digits, space, base)
    done = command("mxtrain.tune", *search.arguments, *BY_GRID)
    assert done.returncode == 0, done.stderr
    assert [row["outcome"] for row in search.rows()] == ["failed", "done"]


@pytest.mark.slow
def test_two_searches_do_not_share_a_folder(tmp_path: Path, digits: Path, command: Command) -> None:
    search = Search(tmp_path, digits)
    with search.under_way(*BY_GRID):
        wait_until(lambda: (search.out / "study.db").exists())
        other = command("mxtrain.tune", *search.arguments, *BY_GRID)
    assert other.returncode == 2 and "another search is running there" in other.stderr


@pytest.mark.slow
def test_a_python_program_searches_and_trains_the_best(
    searched: Search, tmp_path: Path, digits: Path
) -> None:
    search = Search(tmp_path, digits)
    program = f"""
from mxtrain.config import Run, read
from mxtrain.tune import tune
from pathlib import Path
base = read(Path({str(tmp_path / "base.yaml")!r}))
import dataclasses
base = dataclasses.replace(base, output=dataclasses.replace(base.output, out={str(search.out)!r}))
space = {{"lr": [0.01, 0.003], "optimizer": ["adamw", "sgd"]}}
found = tune(base, space, sampler="grid", pruner="none")
assert found.value == min(each["val_loss"] for each in found.trials), found
assert read(found.out / "best.yaml") == found.best
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert_same(search, searched)


FULL = """
import resource, sys
from mxtrain.tune import __main__
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.exit(__main__.main(sys.argv[2:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("num_bytes", "file"), [(60_000, "study.db"), (120_000, "checkpoints/step-00000003")]
)
def test_a_full_disk_ends_the_search_and_with_more_room_it_goes_on(
    searched: Search, tmp_path: Path, digits: Path, command: Command, num_bytes: int, file: str
) -> None:
    search = Search(tmp_path, digits)
    line = [sys.executable, "-c", FULL, str(num_bytes), *search.arguments, *BY_GRID]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert re.search(f"{file}: cannot be written .*; make room, then", done.stderr), done.stderr
    assert command("mxtrain.tune", *search.arguments, *BY_GRID).returncode == 0
    assert_same(search, searched)


@pytest.mark.slow
def test_flags_that_are_drawn_again_are_not_run_again(tmp_path: Path, digits: Path, command: Command) -> None:
    search = Search(tmp_path, digits, "lr: [0.01, 0.003]\n")
    flags = ("--sampler", "random", "--trials", 2, "--seed", TWICE)
    assert command("mxtrain.tune", *search.arguments, *flags).returncode == 0
    first, second = search.rows()
    assert first["lr"] == second["lr"] and second["reason"] == "the same as trial 0"
    assert second["val_loss"] == first["val_loss"]
    assert search.folder(0).exists() and not search.folder(1).exists()
