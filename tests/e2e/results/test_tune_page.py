"""The page of a search in a real browser: drawn whole, closed, and deaf to what names would have it do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.hosts.browser import Tab, browser

pytest.importorskip("optuna")

from mxtrain.config import Run
from mxtrain.tasks.task import Score
from mxtrain.tune import page
from mxtrain.tune import space as spaces
from mxtrain.tune import study as studies
from mxtrain.tune.search import Plan, folder_of

EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
SPACE = """
lr: {low: 1e-4, high: 1e-1, log: true}
batch_size: [32, 64]
optimizer:
  sgd: {momentum: {low: 0.5, high: 0.9}}
  adamw:
"""


def made(folder: Path) -> Path:
    """The page of a search of ten trials, whose runs are made up; its names are evil."""
    out = folder / f"{EVIL.replace('/', '')} ?#%"
    out.mkdir()
    base = Run.of(train="t.rec", val="v.rec")
    space = spaces.parse(SPACE, "space", base)
    space.append(spaces.Parameter(EVIL, "model", 9, choices=(EVIL, "<b>x</b>&amp;")))
    study = studies.open_study(out, {}, is_lower_better=True)
    draw = studies.drawing(space, "random", seed=0, at_once=1)
    for number in range(10):
        trial = study.ask()
        flags = draw(study, trial)
        folder_of(out, number).mkdir(parents=True)
        for evaluation in range(1, 5 if number < 8 else 2):
            trial.report(flags["lr"] + 1 / evaluation, evaluation)
        outcome, value = ("done", flags["lr"] + 0.2) if number < 8 else ("pruned", None)
        told = {"outcome": outcome, "best": value, "best_step": 7, "seconds": 1.5, "reason": EVIL}
        for name, each in told.items():
            trial.set_user_attr(name, each)
        states = studies.TrialState
        study.tell(trial, value, state=states.COMPLETE if value else states.PRUNED)
    (folder_of(out, 0) / "report.html").touch()
    plan = Plan(out, base, space, Score("loss", True), draw, 10, 1, 0.0, 100)
    path = out / "tune.html"
    path.write_text(page.page(plan, study), encoding="utf-8")
    return path


@pytest.mark.system
def test_the_page_of_a_search_in_a_browser(tmp_path: Path) -> None:
    path = made(tmp_path)
    with browser() as started:
        for scheme, width in (("light", 1280), ("dark", 400)):
            tab = Tab(started, width, scheme)
            shown = tab.open(path)
            assert not tab.said and len(tab.asked) == 1  # the file alone
            titles = shown.locator("figure h3").all_inner_texts()
            flags = ["lr", "batch_size", "optimizer", "momentum", "model"]
            assert titles == ["Values", "Evaluations", "Importance", "Parallel coordinates", *flags]
            assert shown.locator("figure .main-svg").count() >= len(titles)
            assert shown.locator("main img, figure a").count() == 0
            assert EVIL in shown.locator("#trials").inner_text()
            links = shown.locator("#trials tbody a")
            assert {links.nth(at).get_attribute("href") for at in range(links.count())} == {
                *(f"trials/{number:04d}/" for number in range(10)),
                "trials/0000/report.html",
            }
            assert _is_within(shown, width)
            tab.close()


def _is_within(shown: Any, width: int) -> bool:
    return bool(shown.evaluate("document.documentElement.scrollWidth") <= width)
