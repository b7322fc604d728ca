"""What holds for every test."""

from __future__ import annotations

import gc
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Generator

import cv2
import numpy as np
import pytest
from hypothesis import settings

from examples.digits import write_digits
from tests.support.commands import ROOT, Command
from tests.support.made_once import made_once
from tests.support.processes import warm_start

pytest_plugins = ["tests.support.processes.crashes"]

# One thread an operator, as several tests run at once; and sums come in the same order whatever the machine.
# A command that a test starts inherits it, and its own --threads stands above it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A graph of ours that fails is seen, and not replaced by another one (`mxtrain/models/fallbacks.py`).
os.environ["MXTRAIN_NO_FALLBACKS"] = "1"
warm_start.ENVIRONMENT.update(os.environ)
warm_start.ENVIRONMENT.pop("PYTEST_CURRENT_TEST", None)

# How long an example takes is the machine's affair, which may be busy; pytest's own timeout ends what hangs.
settings.register_profile("few", deadline=None, max_examples=40)
settings.register_profile("full", deadline=None, max_examples=300)  # make test-all
settings.load_profile("few")

# In the background of a shell Ctrl-C is ignored, and processes inherit that; tests send it to theirs.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # under nohup
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


# Where pytest runs in several processes, a file's tests stay in one of them. The jobs over clusters, of several
# processes with deadlines between them, stay in the same, so that one runs at a time; those over hosts of their own,
# which wait more, in another.
CLUSTERS = (
    *("tests/cluster/", "tests/faults/"),
    *(f"tests/tasks/test_{name}.py" for name in ("workers", "majority", "evaluations", "streams")),
)
# What looks at all sources shares their syntax trees.
SOURCES = tuple(f"tests/unit/test_{name}.py" for name in ("docs", "layers", "references", "sizes", "words"))
# What takes longest, or waits most: beside it others compute.
LONG = (
    *("tests/e2e/", "tests/unit/launch/", "tests/unit/cluster/", *SOURCES),
    *("tests/engine/test_runtime.py", "tests/engine/train/library/test_library.py"),
    *(
        "tests/unit/core/test_interrupts.py",
        "tests/unit/report/sinks/test_progress.py",
        "tests/unit/test_crashes.py",
    ),
    *("tests/unit/data/loading/test_worker_processes.py", "tests/fuzz/test_operators.py"),
)


def pytest_configure(config: pytest.Config) -> None:
    config.option.loadscopereorder = False  # by the number of tests; here those come first that take longest


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.pluginmanager.hasplugin("xdist"):
        return
    items.sort(key=lambda item: (not item.nodeid.startswith(CLUSTERS), not item.nodeid.startswith(LONG)))
    for item in items:
        file = item.nodeid.partition("::")[0]
        if file.startswith(CLUSTERS):
            group = "hosts" if item.get_closest_marker("system") else "clusters"
        else:
            group = "sources" if file in SOURCES else file
        item.add_marker(pytest.mark.xdist_group(group))


def pytest_collection_finish() -> None:
    """Keep what collection has made out of every garbage collection: that takes seconds, and it stays anyway."""
    gc.freeze()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol() -> Generator[None, Any, None]:
    """Have signals and the log do after a test what they did before: a command called in it changes them for good.

    A later test's Ctrl-C would end this process, and what is logged would not reach it.
    """
    log = logging.getLogger("mxtrain")
    before = log.level, log.handlers, log.propagate
    handlers = {
        number: signal.getsignal(number)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    }
    waking = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(waking)
    yield
    log.handlers, log.propagate = before[1:]
    log.setLevel(before[0])
    signal.set_wakeup_fd(waking)
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Where NO_SKIPS=1 (CI, which installs what system tests need), a system test that skips has failed."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and item.get_closest_marker("system") and os.environ.get("NO_SKIPS") == "1":
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} may not skip here: {report.longrepr}"


@pytest.fixture(scope="session")
def command() -> Command:
    """Run `python -m MODULE` as a user would; unless `cold`, in a process that has mxnet already."""

    def run(
        module: str, *arguments: object, timeout: float = 100, cold: bool = False
    ) -> subprocess.CompletedProcess[str]:
        words = list(map(str, arguments))
        if not cold and warm_start.is_possible(module, words):
            return warm_start.run(module, words, ROOT, timeout)
        line = [sys.executable, "-m", module, *words]
        return subprocess.run(line, capture_output=True, text=True, timeout=timeout, cwd=ROOT)

    return run


@pytest.fixture(scope="session")
def shapes(tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    """A folder with train.rec and val.rec: bright pictures against dark ones, learnt in a few steps."""

    def make(folder: Path) -> None:
        rng = np.random.default_rng(0)
        for name, level in (("bright", 200), ("dark", 40)):
            (folder / "images" / name).mkdir(parents=True)
            for number in range(40):
                picture = np.clip(rng.normal(level, 20, (24, 24, 3)), 0, 255).astype(np.uint8)
                cv2.imwrite(str(folder / "images" / name / f"{number}.png"), picture)
        succeed(command("tools.im2rec_wrapper", "pack", folder / "images", folder, "--split", 0.8))

    return made_once(tmp_path_factory, "shapes", make)


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    """A folder with images/, train.rec and val.rec: the demo's handwritten digits."""
    pytest.importorskip("sklearn")

    def make(folder: Path) -> None:
        write_digits(folder / "images")
        succeed(command("tools.im2rec_wrapper", "pack", folder / "images", folder, "--split", 0.9))

    return made_once(tmp_path_factory, "digits", make)


@pytest.fixture(scope="session")
def trained_digits(tmp_path_factory: pytest.TempPathFactory, digits: Path, command: Command) -> Path:
    """The run folder of a net that knows most digits; who writes into it copies it before."""

    def make(folder: Path) -> None:
        few_epochs = ["--epochs", 3, "--devices", "cpu", "--kvstore", "local"]
        data = ["--train", digits / "train.rec", "--val", digits / "val.rec"]
        out = ["--out", folder / "run", "--log", "none"]
        succeed(command("mxtrain.fit", "--config", "examples/digits.yaml", *data, *few_epochs, *out))

    return made_once(tmp_path_factory, "trained-digits", make) / "run"


def succeed(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stderr
