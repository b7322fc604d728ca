"""Runs and packs that each version of mxtrain wrote resume, evaluate, predict, report and read as they did then."""

from __future__ import annotations

import csv
import functools
import json
import re
import shutil
from pathlib import Path
from typing import Any, Sequence

import pytest

from mxtrain import native
from mxtrain.core.system import kernels, wheels
from mxtrain.data.records.record_file import open_records
from mxtrain.report import history
from mxtrain.report.page import html_page, page_data
from tests.golden import packs
from tests.golden.cases import (
    COMMON,
    FOLDER,
    NUMBERS,
    SEARCH_BASE,
    SEARCH_FLAGS,
    SEARCH_SPACE,
    SEARCHES,
    VERSIONS,
    Case,
    Version,
    cases_of,
)
from tests.support import amp, runs
from tests.support.comparing import assert_close
from tests.support.processes import warm_start

HERE = Path(__file__).resolve().parent
MOST_BYTES = 2_100_000
DEADLINE_SECONDS = 100
ALL = [(version, case) for version in VERSIONS for case in cases_of(version)]
# In make test: the oldest, and of the newest one that has much of its own. The others hold the same promises.
RESUMED_IN_CI = ["01-first-ema", f"{VERSIONS[-1].name}-lm"]
ANSWERING_IN_CI = ["01-first-ema"]
ROUNDING = 1e-5  # where kernels or wheels are not those that wrote the folders
# There, of a gradient that is nearly 0: Adam divides it by its own size, so that rounding decides where a weight goes.
ADAMS_ROUNDING = 5e-3  # half a step at their rate
# Up to 03 bfloat16 ran by MXNet's lists, so that a run goes on with other operators narrow.
# Later the table that mxtrain brings was measured again.
OTHER_TABLE, OTHER_TABLE_ROUNDING = 4, 1e-1
OF_OWN_OPERATORS = ("lm",)  # cases that those compute, where a version has them
EXACT_SINCE = 5  # before, an evaluation added losses of many micro-batches in another order


def parameters(in_ci: Sequence[str] | None = None) -> list[Any]:
    """Return all golden runs as parameters; all are slow ones but for those `in_ci`, where some are named."""
    named = [(f"{version.name}-{case.name}", version, case) for version, case in ALL]
    slow = {name for name, *_ in named} - set(in_ci or ())
    return [
        pytest.param(version, case, id=name, marks=pytest.mark.slow if in_ci and name in slow else ())
        for name, version, case in named
    ]


def folder_of(version: Version, case: Case) -> Path:
    return FOLDER / version.name / "killed" / case.name


def expected_of(version: Version, case: Case) -> dict[str, Any]:
    path = FOLDER / version.name / "ended" / case.name / "expected.json"
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def tolerance_of(version: Version, case: Case, expected: dict[str, Any]) -> float:
    """Return 0 where this machine computes with what wrote the folder."""
    if "--amp" in case.flags and NUMBERS[version.name] <= OTHER_TABLE:
        return OTHER_TABLE_ROUNDING
    if case.name == "accumulate" and NUMBERS[version.name] < EXACT_SINCE:
        return ROUNDING
    here = {"kernels": {**kernels.used(), **native.kernels()}, "wheels": wheels.installed()}
    before = expected["computed_with"]
    if case.name not in OF_OWN_OPERATORS:
        before = {**before, "kernels": {**before["kernels"], **native.kernels()}}
    if json.loads(json.dumps(here)) == before:
        return 0.0
    is_of_adam = "--optimizer adam " in case.flags or "--optimizer nadam " in case.flags
    return ADAMS_ROUNDING if is_of_adam else ROUNDING


def run(module: str, *arguments: object) -> Any:
    """Return how `python -m module` has ended, in the folder of the nets."""
    done = warm_start.run(module, list(map(str, arguments)), HERE, timeout=DEADLINE_SECONDS)
    assert done.returncode == 0, done.stderr
    return done


# A run of this version may have told more than the golden one.
assert_holds = functools.partial(assert_close, may_have_more=True)


@pytest.fixture
def moved(tmp_path: Path, version: Version, case: Case) -> Path:
    """A copy of a golden run in another place, with the data of its version beside it."""
    shutil.copytree(FOLDER / version.name / "data", tmp_path / "data")
    return Path(shutil.copytree(folder_of(version, case), tmp_path / case.name))


def test_what_there_is_is_what_was_made() -> None:
    for version in VERSIONS:
        names = {case.name for case in cases_of(version)}
        for part in ("killed", "ended"):
            assert {path.name for path in (FOLDER / version.name / part).iterdir()} == names, version
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < MOST_BYTES


def test_no_file_names_a_module_of_ours_or_a_place_of_a_machine() -> None:
    """So renaming a module, a class or a function changes no file, and none of it is read from there."""
    ours = re.compile(rb"(mxtrain|tools\.im2rec_wrapper)\.[a-z_]+")
    elsewhere = re.compile(rb"/(home|root|work|usr)/|/tmp/(?!golden\b)")
    for path in FOLDER.rglob("*"):
        if path.is_file():
            found = [each.group() for each in ours.finditer(path.read_bytes())]
            # How a run was started is for people: nothing reads it, and that name of a command stays.
            allowed = {b"mxtrain.fit"} if path.name == "environment.json" else set()
            assert set(found) <= allowed, (path, found)
            assert not elsewhere.search(path.read_bytes()), path


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_packs_read_to_the_bit(version: Version) -> None:
    """As MXNet's own reader found them, with every checksum right."""
    data = FOLDER / version.name / "data"
    expected = json.loads((data / "digests.json").read_text())
    assert expected.keys() == {path.name for path in data.glob("*.rec")}
    for name, digests in expected.items():
        records = open_records(data / name)
        assert records.has_checksums
        read = map(records.read, range(len(records)))
        assert [packs.of_record(each.key, each.label, each.payload) for each in read] == digests, name


@pytest.mark.parametrize(("version", "case"), parameters())
def test_checkpoints_read_to_the_bit_and_a_page_is_made(version: Version, case: Case) -> None:
    from mxtrain.checkpoint import directory

    folder = folder_of(version, case)
    newest = directory.newest(folder / "checkpoints")
    assert newest is not None and newest.state["step"] == case.checkpoint
    assert packs.digests_of_checkpoints(folder) == expected_of(version, case)["arrays"]
    data = page_data.page_data([history.read(folder)])
    (shown,) = data["runs"]
    assert shown["axis"]["steps"] == list(range(1, 7)) and shown["damaged"] == 0
    assert {"loss", "lr"} <= {curve["name"] for curve in shown["curves"]}
    assert ["threads", "1"] in shown["config"]
    assert html_page.page(data).count("<script") >= 1


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("version", "case"), parameters(RESUMED_IN_CI))
def test_a_run_resumes_to_the_same_end(version: Version, case: Case, moved: Path) -> None:
    if "--amp" in case.flags and amp.problem:
        pytest.skip("a CPU without bfloat16")
    expected, data = expected_of(version, case), moved.parent / "data" / case.data
    tolerance = tolerance_of(version, case, expected)
    weights = FOLDER / version.name / "ended" / "plain" / "weights.params"
    more = ["--pretrained", weights] if "{plain}" in case.flags else []
    before = runs.records(moved, "train")[: case.checkpoint]
    # What `defaults` leaves out its config does not: the same command goes on there.
    flags = (
        f"{COMMON} {case.flags}".split() if case.name == "defaults" else ["--config", moved / "config.yaml"]
    )
    run(
        *("mxtrain.fit", *flags, "--out", moved, *more),
        *("--train", f"{data}_train.rec", "--val", f"{data}_val.rec"),
    )
    assert runs.records(moved, "train")[: case.checkpoint] == before, (
        "with their times: they were not made again"
    )
    end = FOLDER / version.name / "ended" / case.name
    curve = [json.loads(line) for line in (end / "metrics.jsonl").read_text().splitlines()]
    found = [each for each in runs.curve(moved) if each["kind"] in ("train", "eval")]
    assert_holds(found, curve, tolerance, "metrics")
    state = json.loads((runs.newest(moved) / "state.json").read_text())
    if "class_names" in expected["state"]:  # there was one task, of which this was all
        state["class_names"] = state["description"]["class_names"]
    younger_or_of_place = ("amp_table", *(() if "grid.params" in expected["end"] else ("units_rule",)))
    if tolerance:  # of another CPU
        younger_or_of_place += ("kernels",)
    wanted = {name: value for name, value in expected["state"].items() if name not in younger_or_of_place}
    assert_holds(state, wanted, tolerance, "state")
    files = {path.name for path in runs.newest(moved).glob("*.params")}
    assert files >= expected["end"].keys()
    assert_holds(
        packs.arrays(runs.newest(moved) / "weights.params"), packs.arrays(end / "weights.params"), tolerance
    )
    if not tolerance:
        for name, digests in expected["end"].items():
            assert packs.digest_of_arrays(runs.newest(moved) / name) == digests, name


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("version", "case"), parameters(ANSWERING_IN_CI))
def test_a_run_evaluates_and_predicts(version: Version, case: Case, moved: Path) -> None:
    if "--amp" in case.flags and amp.problem:
        pytest.skip("a CPU without bfloat16")
    expected, data = expected_of(version, case), moved.parent / "data"
    tolerance = tolerance_of(version, case, expected)
    done = run("mxtrain.evaluate", "--run", moved, "--val", data / f"{case.data}_val.rec", "--json")
    assert_holds(runs.scores_of(json.loads(done.stdout)), runs.scores_of(expected["evaluation"]), tolerance)
    files = [data / each if each.startswith("one.") else each for each in case.predict]
    done = run("mxtrain.predict", "--run", moved, "--json", *files)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    places = ("image", "input")
    told = [{name: each[name] for name in each if name not in places} for each in expected["prediction"]]
    assert_holds(answers, told, tolerance, "prediction")


def trials_of(search: Path) -> list[dict[str, str]]:
    """Return the table of a search's trials, without what a clock says."""
    with (search / "trials.csv").open(newline="") as file:
        return [{name: row[name] for name in row if name != "seconds"} for row in csv.DictReader(file)]


@pytest.mark.slow  # in small: the other tests of searches (tests/e2e/results/test_tune.py)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("state", ["finished", "killed"])
def test_a_search_goes_on_to_the_same_trials(name: str, state: str, tmp_path: Path) -> None:
    searches = FOLDER / name / "searches"
    out = shutil.copytree(searches / state, tmp_path / "search")
    done_before = {path.name: path.read_bytes() for path in out.glob("trials/0000/metrics.jsonl")}
    (tmp_path / "base.yaml").write_text(SEARCH_BASE)
    (tmp_path / "space.yaml").write_text(SEARCH_SPACE)
    line = ("--config", tmp_path / "base.yaml", "--space", tmp_path / "space.yaml", "--out", out)
    run("mxtrain.tune", *line, *SEARCH_FLAGS)
    assert trials_of(out) == trials_of(searches / "finished")
    assert {path.name: path.read_bytes() for path in out.glob("trials/0000/metrics.jsonl")} == done_before
    assert len(list((out / "trials").iterdir())) == 3, "none was set aside"


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHES)
def test_an_export_answers_as_its_run(name: str, tmp_path: Path) -> None:
    version = VERSIONS[NUMBERS[name] - 1]
    plain = next(case for case in cases_of(version) if case.name == "plain")
    out = shutil.copytree(folder_of(version, plain), tmp_path / "plain")
    shutil.copytree(FOLDER / name / "export", out / "export")
    val = FOLDER / name / "data" / "pictures_val.rec"
    done = run("mxtrain.evaluate", out / "export" / "symbol", "--val", val, "--json")
    expected = runs.scores_of(expected_of(version, plain)["evaluation"])
    assert_holds(runs.scores_of(json.loads(done.stdout)), expected, 1e-4)
