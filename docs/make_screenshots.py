"""Writes the pictures of docs/report.md: `python docs/make_screenshots.py`, a minute or two. Needs mxtrain's extras dev
and cpu, and Chromium.

Trains handwritten digits: two workers, one of which is killed in the middle; with too low a rate; and with a good one.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

DOCS = Path(__file__).parent
ROOT = DOCS.parent
DIGITS = ("--config", "examples/digits.yaml", "--sample-steps", "10", "--log", "none")
DEADLINE_SECONDS = 300


def main() -> None:
    """Train, make the pages, and take their pictures."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        run("examples/digits.py", folder / "images")
        run("-m", "tools.im2rec_wrapper", "pack", folder / "images", folder, "--split", "0.8")
        killed, low, good = (folder / name for name in ("two-workers", "lr-0.00001", "lr-0.004"))
        train_and_kill_a_worker(folder, killed)
        run(*fit(folder, low), "--epochs", "4", "--lr", "0.00001")
        run(*fit(folder, good), "--epochs", "6")
        for runs in ((killed,), (low,), (good, low)):
            run(
                "-m",
                "mxtrain.report",
                *runs,
                "--out",
                folder / f"{'-'.join(each.name for each in runs)}.html",
            )
        take_pictures(folder)


def fit(folder: Path, out: Path) -> list[object]:
    return [
        "-m",
        "mxtrain.fit",
        *DIGITS,
        "--train",
        folder / "train.rec",
        "--val",
        folder / "val.rec",
        "--out",
        out,
    ]


def run(*words: object) -> None:
    subprocess.run([sys.executable, *map(str, words)], cwd=ROOT, check=True, timeout=DEADLINE_SECONDS)


def train_and_kill_a_worker(folder: Path, out: Path) -> None:
    """Train with two workers and kill one behind the second epoch: the job goes on from its newest checkpoint."""
    job = ("--kvstore", "dist_sync", "--num-workers", "2", "--devices", "cpu", "--checkpoint-steps", "20")
    command = [sys.executable, *map(str, (*fit(folder, out), *job, "--epochs", "6"))]
    with subprocess.Popen(command, cwd=ROOT) as supervisor:
        try:
            end = time.monotonic() + DEADLINE_SECONDS
            while '"step": 56,' not in (text(out / "metrics.jsonl")):
                if supervisor.poll() is not None or time.monotonic() > end:
                    raise SystemExit("the run of two workers ended before a worker was killed")
                time.sleep(0.02)
            is_worker = [
                each
                for each in psutil.Process(supervisor.pid).children(recursive=True)
                if role(each) == "worker"
            ]
            is_worker[-1].kill()
            if supervisor.wait(DEADLINE_SECONDS):
                raise SystemExit("the run of two workers did not go on")
        finally:
            supervisor.kill()


def text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def role(process: psutil.Process) -> str:
    try:
        found: str = process.environ().get("DMLC_ROLE", "")
    except psutil.Error:  # it has just ended
        found = ""
    return found


def take_pictures(folder: Path) -> None:
    """Take each picture: a file, its page, the width, the scheme, and the sections from one to another."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, page, width, scheme, first, last in (
            ("report", "two-workers", 1280, "light", "#top", "#curves .grid > :nth-child(3)"),
            ("report_time", "two-workers", 1280, "dark", "#time", "#layers"),
            ("report_classes", "two-workers", 1280, "light", "#classes", "#samples .samples > :nth-child(6)"),
            ("report_diagnosis", "lr-0.00001", 1280, "light", "#top", "#diagnosis"),
            ("report_runs", "lr-0.004-lr-0.00001", 1280, "dark", "#top", "#differences"),
            ("report_phone", "two-workers", 400, "dark", "#top", "#curves .grid > :nth-child(1)"),
        ):
            tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            tab.goto((folder / f"{page}.html").as_uri())
            tab.wait_for_selector("html[data-plots=drawn]", state="attached")
            top, bottom = (tab.locator(each).first.bounding_box() for each in (first, last))
            height = bottom["y"] + bottom["height"] + 16 - top["y"]
            clip = {"x": 0, "y": top["y"], "width": width, "height": height}
            tab.screenshot(path=DOCS / f"{name}.png", full_page=True, clip=clip)
            tab.close()
        browser.close()


if __name__ == "__main__":
    main()
