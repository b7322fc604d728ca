"""The examples of docs/examples.md are short, and learn what they say."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from examples import own_net, recommender_data, written_numbers, written_numbers_data
from mxtrain.config import Run
from mxtrain.core.errors import DATA
from mxtrain.fit import fit as fit_in_python
from mxtrain.tasks.metrics.metric_functions import roc_auc
from tests.support.breadth import slow_cases
from tests.support.commands import ROOT, Command
from tests.support.runs import records


def scores(out: Path, name: str) -> list[float]:
    return [each[name] for each in records(out) if each["kind"] == "eval"]


def flags_of(example: str) -> list[str]:
    """Return the flags of the command in an example's first lines, without its files."""
    said = (ROOT / "examples" / f"{example}.py").read_text().split('"""')[1].replace("\\\n", " ")
    (line,) = re.findall(r"python -m mxtrain\.fit (.*)", said)
    return re.sub(r"--(train|val|out) \S+", "", line).split()


def fit(command: Command, folder: Path, flags: list[str]) -> Path:
    files = ["--train", folder / "train.rec", "--val", folder / "val.rec", "--out", folder / "run"]
    done = command("mxtrain.fit", *flags, *files, "--log", "none", timeout=200)
    assert done.returncode == 0, done.stderr
    return folder / "run"


def test_examples_are_short_and_in_the_docs() -> None:
    told = (ROOT / "docs" / "examples.md").read_text()
    for path in (ROOT / "examples").glob("*.py"):
        assert len(path.read_text().splitlines()) < 100, path
        assert f"(../examples/{path.name})" in told, path


def test_a_net_and_a_loss_of_ones_own(shapes: Path, tmp_path: Path, command: Command) -> None:
    """On easier pictures than digits, in fewer steps."""
    flags = [
        *flags_of("own_net"),
        "--epochs",
        "4",
        "--batch-size",
        "16",
        "--lr",
        "0.01",
        "--optimizer",
        "adamw",
    ]
    files = ["--train", shapes / "train.rec", "--val", shapes / "val.rec", "--out", tmp_path, "--log", "none"]
    done = command("mxtrain.fit", *flags, *files)
    assert done.returncode == 0, done.stderr
    assert scores(tmp_path, "val_accuracy")[-1] > 0.9


def test_the_same_from_python(shapes: Path, tmp_path: Path) -> None:
    run = Run.of(
        image_size="16", augment="none", out=str(tmp_path), log="none", threads=1, epochs=1, batch_size=16
    )
    result = fit_in_python(run, train=str(shapes / "train.rec"), net=own_net.mixer(2), loss=own_net.robust)
    assert result.net is not None and len(result.history) == 4


@pytest.mark.parametrize(
    ("page", "says"),
    [("README.md", " [{'classes': [{'class': '1'"), *slow_cases(("docs/library.md", "epoch 1  accuracy"))],
)
def test_python_of_the_pages_runs(
    page: str,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """README's, and the library page's callback, each as it stands."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.S | re.M)
    (code,) = (
        block for block in blocks if "default_rng" in block and "fit(" in block and "Watch" not in block
    )
    monkeypatch.chdir(tmp_path)
    exec(compile(code, page, "exec"), {"__name__": "page"})
    assert says in capsys.readouterr().out


def test_the_hooks_of_the_library_page_watch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "library.md").read_text(), re.S | re.M)
    (code,) = (block for block in blocks if "Watch" in block)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "docs/library.md", "exec"), {"__name__": "page"})
    begin, *epochs, end, result = capsys.readouterr().out.splitlines()
    assert begin == "Mlp, 0 steps are done" and epochs[0].startswith("epoch 1  loss ")
    assert re.fullmatch(r"\d+ steps, (done|stopped by a hook)", end)
    assert result.startswith(f"<Result runs/watched: {len(epochs)} epochs, val_accuracy 0.9")
    kept, saved = (
        sorted(path.name for path in Path(each).iterdir()) for each in ("kept", "runs/watched/checkpoints")
    )
    assert set(saved) <= set(kept)


def test_the_loop_of_the_library_page_learns(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "library.md").read_text(), re.S | re.M)
    (code,) = (block for block in blocks if "gluon.Trainer" in block)
    exec(compile(code, "docs/library.md", "exec"), {"__name__": "page"})
    last = capsys.readouterr().out.splitlines()[-1]
    assert float(last.split()[1]) < 0.5


def test_the_task_of_the_tasks_page_is_learnt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its file and its program, each as it stands."""
    own, program = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "tasks.md").read_text(), re.S | re.M)
    (tmp_path / "mine.py").write_text(own)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    exec(compile(program, "docs/tasks.md", "exec"), {"__name__": "page"})
    assert float(capsys.readouterr().out) > 0.9
    del sys.modules["mine"]


def test_the_task_to_copy_is_learnt_and_predicts(tmp_path: Path, command: Command) -> None:
    """By its own command, but for one epoch; tests/tasks hold of it what all tasks are promised."""
    flags = [*flags_of("own_task"), "--epochs", "1", "--batch-size", "32", "--threads", "1"]
    sets = ["--train", "examples.own_task_data:train", "--val", "examples.own_task_data:val"]
    done = command("mxtrain.fit", *flags, *sets, "--metric", "r2", "--log", "none", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    assert scores(tmp_path / "run", "val_r2")[-1] > 0.2 and scores(tmp_path / "run", "val_coverage")[-1] > 0.8
    (tmp_path / "new.csv").write_text("0.3,0.9\n0.3,none\n0.3,0\n")
    told = command("mxtrain.predict", tmp_path / "run", tmp_path / "new.csv", "--json")
    assert told.returncode == DATA
    first, third = (json.loads(line) for line in told.stdout.splitlines())
    assert (first["input"], third["input"]) == (f"{tmp_path / 'new.csv'}:1", f"{tmp_path / 'new.csv'}:3")
    assert 0 < first["number"] < 1.5 and first["deviation"] > 0
    assert f"{tmp_path / 'new.csv'}:2: it is not 2 numbers" in told.stderr


@pytest.mark.slow  # the other examples are fast
def test_rows_of_digits_begin_to_be_read(tmp_path: Path, command: Command) -> None:
    """In four passes over few of them."""
    pytest.importorskip("sklearn")
    written_numbers_data.write(tmp_path, num_train=500, num_val=40)
    flags = [*flags_of("written_numbers"), "--epochs", "4", "--threads", "1"]
    assert scores(fit(command, tmp_path, flags), "val_share_read")[-1] > 0.1


@pytest.mark.slow  # the test above holds it in small
def test_rows_of_digits_are_read(tmp_path: Path, command: Command) -> None:
    pytest.importorskip("sklearn")
    written_numbers_data.write(tmp_path)
    found = scores(fit(command, tmp_path, flags_of("written_numbers")), "val_share_read")
    assert max(found) > 0.75


@pytest.mark.parametrize(("symbols", "digits"), [((10, 10), ()), ((1, 1, 10, 1, 2, 2), (1, 1, 2)), ((), ())])
def test_digits_that_symbols_stand_for(symbols: tuple[int, ...], digits: tuple[int, ...]) -> None:
    assert tuple(written_numbers.read_off(np.array(symbols, int))) == digits


def test_the_truth_of_clicks_is_known(tmp_path: Path) -> None:
    shown = recommender_data.clicks(50_000, seed=5)
    odds = 1 / (1 + np.exp(-shown.log_odds))
    spread = np.sqrt((odds * (1 - odds)).sum())
    assert abs(shown.clicked.sum() - odds.sum()) < 4 * spread
    for sure in (odds < 0.1, odds > 0.5):
        assert shown.clicked[sure].mean() == pytest.approx(odds[sure].mean(), abs=0.02)
    best, of_columns = (roc_auc(each, shown.clicked > 0) for each in (shown.log_odds, shown.first_order))
    assert best > 0.77 and of_columns < 0.73  # pairs are needed


def test_clicks_have_the_same_bytes_each_time(tmp_path: Path) -> None:
    for folder in (tmp_path / "one", tmp_path / "two"):
        recommender_data.write_clicks(folder, num_train=200, num_val=100)
    for name in ("train", "val"):
        one, two = ((tmp_path / each / f"clicks_{name}.csv").read_bytes() for each in ("one", "two"))
        assert one == two and one.startswith(b"click,user,item,device,tags,price\n")
    shown = recommender_data.clicks(200, seed=0)
    lines = (tmp_path / "one" / "clicks_train.csv").read_text().splitlines()[1:]
    assert [int(line.split(",")[1]) for line in lines] == shown.user.tolist()
    assert [line.split(",")[4].count("t") for line in lines] == (shown.tags >= 0).sum(axis=1).tolist()


@pytest.mark.slow  # tests/cluster/sums/test_sparse.py trains a table on servers in small
@pytest.mark.timeout(240)
def test_likings_are_learnt_on_parameter_servers(tmp_path: Path, command: Command) -> None:
    recommender_data.write(tmp_path)
    found = scores(fit(command, tmp_path, flags_of("recommender")), "val_auc")
    assert found[-1] > 0.8
