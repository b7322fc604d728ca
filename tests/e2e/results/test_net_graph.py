"""`evaluate --graph` of a trained run, as a user calls it: the table, the picture in a browser, and ONNX."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

from mxtrain.core.errors import UsageError
from mxtrain.evaluate import command as evaluate
from tests.support.breadth import slow_cases
from tests.support.commands import Command
from tests.support.hosts.browser import Tab, browser


def test_a_trained_run_is_shown_drawn_and_written_as_onnx(
    trained_digits: Path, tmp_path: Path, command: Command
) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained_digits, run)
    done = command("mxtrain.evaluate", run, "--graph", "--json", "--picture", "--onnx", tmp_path / "net.onnx")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    told = json.loads(done.stdout)
    weights = next((run / "checkpoints").glob("step-*")) / "weights.params"
    parameters = told["totals"]["parameters"]
    assert 4 * parameters < weights.stat().st_size < 4 * parameters + 10_000
    assert told["training"]["optimizer"] == "adamw"
    assert told["training"]["state_bytes"] == 2 * told["training"]["gradient_bytes"]
    assert [row["kind"] for row in told["layers"]][:3] == ["Conv2D", "BatchNorm", "Activation"]
    assert sum(row["parameters"] for row in told["layers"] if not row["depth"]) == parameters
    assert (run / "export" / "graph.html").read_text().startswith("<!doctype html>")

    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    (answer,) = session.run(None, {given.name: np.zeros(given.shape, np.float32)})
    assert list(answer.shape) == told["outputs"][0]


def test_a_model_by_name_has_the_same_table_without_a_run(command: Command, tmp_path: Path) -> None:
    picture = tmp_path / "net.svg"
    done = command("mxtrain.evaluate", "resnet18_v1b", "--graph", "--picture", picture)
    assert done.returncode == 0, done.stderr
    assert "11,689,512 parameters that are learnt" in done.stdout and "1.81 G multiply-adds" in done.stdout
    assert picture.read_text().startswith("<svg ") and not list(tmp_path.glob("*.writing"))


def test_no_part_of_a_run_is_replaced_by_its_picture(trained_digits: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(trained_digits, tmp_path / "run"))
    weights = next((run / "checkpoints").glob("step-*")) / "weights.params"
    before = weights.read_bytes()
    (tmp_path / "net.svg").symlink_to(weights)
    for words in (
        ["--onnx", weights],
        ["--picture", tmp_path / "net.svg"],
        ["--onnx", run / "metrics.jsonl"],
    ):
        for named in (run, weights.parent):
            with pytest.raises(UsageError, match=f"{words[0]} .* is a part of the run {run}"):
                evaluate([str(named), "--graph", *map(str, words)])
    assert weights.read_bytes() == before


def test_its_flags_alone_are_refused(trained_digits: Path, command: Command) -> None:
    done = command("mxtrain.evaluate", trained_digits, "--depth", 2)
    assert done.returncode == 2 and "--depth: goes with --graph" in done.stderr
    done = command("mxtrain.evaluate", trained_digits, "--graph", "--image-size", 64)
    assert done.returncode == 2 and "is a run, which has its own" in done.stderr


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as started:
        yield started


@pytest.mark.system
@pytest.mark.parametrize("scheme", ["dark", *slow_cases("light")])
def test_a_box_leads_to_its_block_and_nothing_is_asked_for(
    chromium: Any, tmp_path: Path, command: Command, scheme: str
) -> None:
    file = tmp_path / "net.html"
    done = command("mxtrain.evaluate", "resnet18_v1b", "--graph", "--picture", file)
    assert done.returncode == 0, done.stderr
    tab = Tab(chromium, scheme=scheme)
    tab.page.goto(file.as_uri())
    assert tab.page.locator("figure:visible").count() == 1
    tab.page.locator("main > figure a", has_text="BasicBlockV1b").first.click()
    opened = tab.page.locator("details[open] > summary").all_text_contents()
    assert [text.split("HybridSequential")[0].split("BasicBlock")[0] for text in opened] == [
        "layer1",
        "layer1.0",
    ]
    texts = tab.page.locator("#block-1 svg text:visible").all_text_contents()
    assert any(text.startswith("Conv2D 3×3") for text in texts)
    assert tab.said == [] and all(address.startswith(file.as_uri()) for address in tab.asked)
    background, ink = (
        tab.page.evaluate(f"getComputedStyle(document.body).{name}") for name in ("backgroundColor", "color")
    )
    assert (background, ink) != ("rgb(251, 251, 250)", "rgb(28, 33, 39)") or scheme == "light"
    tab.close()
