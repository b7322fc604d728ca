"""The page of a run in a real browser: it draws all, asks for nothing, and what a run holds is only ever text."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Iterator

import pytest

from mxtrain.report import __main__ as report
from tests.support.breadth import slow_cases
from tests.support.commands import ROOT
from tests.support.hosts.browser import Tab, browser
from tests.support.jobs import recorded_run

pytestmark = pytest.mark.system

RUNS_BEFORE = ROOT / "tests" / "golden" / "runs_before"
# In names of classes, flags' values, texts of events and folders; each would say `pwned` where it is markup or script.
SHORT = "<b>&lt;b"  # which fits into a plot as it is
HOSTILE = [
    "</script><script>alert('pwned')</script>",
    "<img src=x onerror=alert('pwned')>",
    "<b onmouseover=alert('pwned')>bold</b><a href=\"javascript:alert('pwned')\">link</a>",
    "\u2028alert('pwned')//\u2029 '\"`${alert('pwned')} %{x} {{script}} <!--<script>",
    "x" * 5000,
    SHORT,
]


LEAST_CONTRAST = """(() => {
  const part = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const parts = colour => colour.match(/[\\d.]+/g).map(Number).map(part);
  const light = colour => { const [r, g, b] = parts(colour); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = node => {
    const found = getComputedStyle(node).backgroundColor;
    return /, 0\\)$/.test(found) ? behind(node.parentElement) : found;
  };
  const hasText = node => [...node.childNodes].some(each => each.nodeType === 3 && each.textContent.trim());
  const texts = [...document.querySelectorAll("body *:not(script):not(svg *)")].filter(hasText);
  return Math.min(...texts.filter(node => node.getClientRects().length).map(node => {
    const both = [light(getComputedStyle(node).color), light(behind(node))];
    return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
  }));
})()"""  # of any text with what is behind it, by WCAG's formula


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as started:
        yield started


def page_of(*folders: Path) -> Path:
    assert report.main([str(folder) for folder in folders]) == 0
    return folders[0] / "report.html"


def plots(tab: Tab) -> list[dict[str, Any]]:
    """The plots of a page: their title, what a screen reader says, and how many points they draw."""
    found: list[dict[str, Any]] = tab.page.evaluate(
        """[...document.querySelectorAll("figure")].map(figure => {
             const plot = figure.querySelector(".plot");
             const points = (plot.data || []).map(t => (t.z ? t.z.flat() : t.y).filter(v => v !== null).length);
             return {title: figure.querySelector("h3").textContent, told: plot.getAttribute("aria-label"),
                     points: points.reduce((a, b) => a + b, 0), svg: !!plot.querySelector(".main-svg")};
           })"""
    )
    return found


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (400, "dark"),  # narrow, and not as a page is by itself
        *slow_cases((1280, "dark"), (400, "light"), (1280, "light")),
    ],
)
def test_every_plot_holds_data_and_no_request_leaves(
    chromium: Any, tmp_path: Path, width: int, scheme: str
) -> None:
    path = page_of(recorded_run.write(tmp_path / "a"))
    tab = Tab(chromium, width, scheme)
    page = tab.open(path)
    found = plots(tab)
    assert {
        "Loss",
        "Shares of a step",
        "Length by layer and step",
        "Processor",
        "Confusion matrix",
        "Calibration",
    } <= {each["title"] for each in found}
    assert all(each["points"] and each["svg"] and each["told"] for each in found), found
    assert tab.asked == [path.as_uri()] and tab.said == []
    assert page.locator("#diagnosis .finding h3").all_text_contents() == ["Some labels are probably wrong"]
    assert "--label-smoothing 0.1" in page.locator("#diagnosis code").all_text_contents()
    marks = page.evaluate(
        "document.querySelector('#curves .plot').layout.annotations.map(each => [each.x, each.text])"
    )
    assert marks == [[100, "stop"], [100, "restart"]]
    boxes = page.evaluate(
        """[...document.querySelector("#curves .plot").querySelectorAll(".annotation-text")].map(each => {
             const box = each.getBoundingClientRect(); return [box.top, box.bottom]; })"""
    )
    assert len(boxes) == 2 and boxes[0][1] <= boxes[1][0] + 2, "one above the other, each to be read"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background))) > 384) == (scheme == "light")
    ink = page.evaluate("document.querySelector('.main-svg text').style.fill")
    assert (sum(map(int, re.findall(r"\d+", ink)[:3])) < 384) == (scheme == "light")
    assert page.evaluate(LEAST_CONTRAST) >= 4.5
    tab.close()


def test_a_page_can_be_read_and_used_without_a_mouse(chromium: Any, tmp_path: Path) -> None:
    """Landmarks, one h1, headings in order, captions, names of all that can be used, and a table that sorts."""
    tab = Tab(chromium)
    page = tab.open(page_of(recorded_run.write(tmp_path / "a")))
    for landmark in ("header", "nav[aria-label]", "main", "footer", "h1", "html[lang]"):
        assert page.locator(landmark).count() == 1, landmark
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3')].map(each => Number(each.tagName[1]))")
    assert levels[0] == 1 and all(after <= before + 1 for before, after in zip(levels, levels[1:]))
    assert page.locator("section").count() == page.locator("section[aria-labelledby]").count()
    assert page.locator("table").count() == page.locator("table > caption").count() > 0
    assert page.locator("img").count() == page.locator("img[alt]").count()
    unnamed = page.evaluate(
        "[...document.querySelectorAll('input,select,button')].filter(e => !(e.labels?.length || e.textContent)).length"
    )
    assert unnamed == 0
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    heads = page.locator("#classes th button")
    heads.nth(1).focus()
    page.keyboard.press("Enter")
    assert page.locator("#classes th[aria-sort=ascending]").count() == 1
    page.locator("#classes th button", has_text="class").first.press("Enter")
    first = page.locator("#classes tbody th").first.text_content()
    assert first == "dial"
    page.locator("input[value=epoch]").check()
    assert page.evaluate("Math.max(...document.querySelector('#curves .plot').data.at(-1).x)") == 4
    page.locator("#log").check()
    assert page.evaluate("document.querySelector('#curves .plot').layout.yaxis.type") == "log"
    tab.close()


@pytest.mark.parametrize(
    "has_policy", [False, pytest.param(True, marks=pytest.mark.slow)]
)  # the first is harder
@pytest.mark.parametrize("num_runs", [2, *slow_cases(1)])  # two are compared, by all that one shows
def test_nothing_of_a_run_is_markup_or_script(
    chromium: Any, tmp_path: Path, has_policy: bool, num_runs: int
) -> None:
    """Also where no policy would stop it."""
    folder = tmp_path / "<img src=x onerror=alert('pwned')>"
    recorded_run.write(folder, classes=HOSTILE, **{f"flag{i}": text for i, text in enumerate(HOSTILE)})
    other = recorded_run.write(tmp_path / "b", classes=HOSTILE)
    text = (folder / "metrics.jsonl").read_text()
    hostile = json.dumps(HOSTILE[1])[1:-1]
    for word in ("alpha", "conv0_weight", "damaged, skipped", "val_top5_accuracy", "Tesla T4"):
        text = text.replace(word, f"val_{hostile}" if word.startswith("val_") else hostile)
    (folder / "metrics.jsonl").write_text(text)
    path = page_of(*(folder, other)[:num_runs])
    text = path.read_text()
    if has_policy:  # which stops a script that came in
        path.write_text(text.replace("</main>", "</main><script>document.title = 'pwned'</script>"))
    else:
        path.write_text(re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", text))
    tab = Tab(chromium, 400)
    page = tab.open(path)
    for node in page.locator("#layers .plot, #classes .plot").all():
        node.hover()  # which shows texts of its own
    assert page.title() != "pwned" and tab.asked == [path.as_uri()]
    assert not [each for each in tab.said if not (has_policy and "Content Security Policy" in each)]
    assert page.locator("[onerror], [onmouseover], svg a, img[src=x]").count() == 0
    assert page.locator("script").count() == 3 + has_policy and page.locator("main b").count() == 0
    assert SHORT in page.locator("#classes svg text").all_text_contents()
    assert page.locator(f"text={HOSTILE[1]}").count()  # it is there, as text
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    tab.close()


def folder_of(kind: str, path: Path) -> Path:
    """A run of a kind that has little to show."""
    if kind == "earlier version":
        return Path(shutil.copytree(RUNS_BEFORE / "killed" / "adam_loss_scale", path))
    path.mkdir()
    if kind == "no record":
        (path / "config.yaml").write_text("lr: 0.1\n")
    elif kind == "damaged":
        lines = [json.dumps(each) for each in recorded_run.records(40, 2, 3)]
        (path / "metrics.jsonl").write_text(
            "\n".join(line[: len(line) - 7 * (i % 3)] for i, line in enumerate(lines))
        )
    elif kind == "regression":
        lines = [{"kind": "train", "step": s, "epoch": 1, "loss": 1 / s, "lr": 0.1} for s in range(1, 9)]
        evaluation = {"kind": "eval", "step": 8, "epoch": 1, "val_loss": 0.5, "val_mae": 0.25, "val_r2": 0.9}
        worst = {
            "kind": "worst",
            "step": 8,
            "epoch": 1,
            "samples": [{"sample": 3, "loss": 2.5, "predicted": [1.5]}],
        }
        (path / "metrics.jsonl").write_text(
            "".join(json.dumps(e) + "\n" for e in (*lines, evaluation, worst))
        )
        (path / "config.yaml").write_text("task: regression\nval: gone.rec\n")
    else:
        (path / "metrics.jsonl").write_text(
            json.dumps({"kind": "train", "step": 1, "epoch": 1, "loss": None}) + "\n"
        )
    return path


@pytest.mark.parametrize(
    "kind",
    [
        "damaged",
        # What the others' pages say is in tests/unit/report/page/test_page_data.py.
        *slow_cases("regression", "earlier version", "no record", "one step, not finite"),
    ],
)
def test_a_run_with_little_to_show_has_a_page(chromium: Any, tmp_path: Path, kind: str) -> None:
    tab = Tab(chromium)
    page = tab.open(page_of(folder_of(kind, tmp_path / "a")))
    assert tab.said == []
    assert all(each["points"] for each in plots(tab))
    expected = {
        "earlier version": "A run of an earlier version",
        "no record": "has recorded no step yet",
        "damaged": "damaged lines were left out",
        "regression": "gone.rec",
        "one step, not finite": "steps",
    }
    assert expected[kind] in page.locator("body").inner_text()
    tab.close()


@pytest.mark.slow  # in small: test_a_long_run_is_a_small_page_with_its_extremes
@pytest.mark.alone
def test_a_million_steps_open_in_three_seconds(chromium: Any, tmp_path: Path) -> None:
    """From the address to the last plot. The best of three: a neighbour on the machine can only make one slower."""
    columns = ("split", "load", "compute", "synchronize", "update", "other")
    stages = "".join(f', "{name}_seconds": 0.0123456789' for name in columns)
    with (tmp_path / "metrics.jsonl").open("w") as file:
        for step in range(1, 1_000_001):
            loss = 1000.5 if step == 333_333 else 2.3 + (step * 7919 % 1000) / 1000 - step / 1e6
            file.write(
                f'{{"kind": "train", "step": {step}, "epoch": {step // 50_000 + 1}, "time": {1.7e9 + step}, '
                f'"loss": {loss}, "lr": {0.1 - step / 2e7}, "gradient_norm": {loss / 3}{stages}, '
                f'"images_per_second": {step % 97}.5, "seconds": 0.1}}\n'
            )
    path = page_of(tmp_path)
    opened = []
    for _ in range(3):
        tab = Tab(chromium)
        start = time.monotonic()
        page = tab.open(path)
        opened.append(time.monotonic() - start)
        assert page.evaluate("Math.max(...document.querySelector('#curves .plot').data[1].y)") == 1000.5
        tab.close()
    assert min(opened) < 3, opened


def test_a_live_page_moves_with_its_run_and_ends_with_its_server(chromium: Any, tmp_path: Path) -> None:
    folder = tmp_path / "a"
    recorded_run.write(folder, steps=40)
    lines = (folder / "metrics.jsonl").read_text().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_text("".join(lines[:30]))
    command = [sys.executable, "-m", "mxtrain.report", str(folder), "--serve"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://127\.0\.0\.1:\d+/", server.stdout.readline())
            assert found
            tab = Tab(chromium)
            page = tab.open(found[0])
            last_step = "Math.max(...document.querySelector('#curves .plot').data.flatMap(trace => trace.x))"
            before = page.evaluate(last_step)
            with (folder / "metrics.jsonl").open("a") as file:
                file.write("".join(lines[30:]))
            end = time.monotonic() + 30
            while page.evaluate(last_step) != 40:
                assert time.monotonic() < end
                time.sleep(0.05)
            assert before < 40 and page.locator("#events tbody tr").count() > 1
            assert tab.said == [] and all(url.startswith(found[0]) for url in tab.asked)
            server.send_signal(signal.SIGTERM)
            assert server.wait(20) == 143
            page.wait_for_selector("text=The server has ended")
            tab.close()
        finally:
            server.kill()
