"""A pytest plugin that says of a test process that died which test it ran, which ones before, how and where it ended.

Where memory is damaged a process may die in a later test than the one that did it.
"""

from __future__ import annotations

import collections
import faulthandler
import tempfile
from pathlib import Path
from typing import Any, Mapping

import pytest

NUM_EARLIER = 5
_tests_run: dict[str, collections.deque[str]] = collections.defaultdict(
    lambda: collections.deque(maxlen=NUM_EARLIER)
)
_endings: dict[str, str] = {}


@pytest.hookimpl(trylast=True)  # after pytest's own, which would have it on a terminal that nobody keeps
def pytest_configure(config: Any) -> None:
    """Have a process that tests run in write where it was when it died."""
    if hasattr(config, "workerinput"):
        faulthandler.enable(_stacks(config.workerinput).open("w"))


def pytest_runtest_logreport(report: Any) -> None:
    """Note a finished test of a process."""
    if hasattr(report, "node") and report.when == "teardown":
        _tests_run[report.node.gateway.id].append(report.nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Say how a process ended that should not have, also where it had no test under way."""
    stacks = _stacks(node.workerinput)
    if error:
        code = node.gateway._io.popen.wait()  # xdist's pipe to it has closed: it has ended
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        earlier = ", ".join(_tests_run[node.gateway.id]) or "none"
        _endings[node.gateway.id] = (
            f"it ended {how}; tests that it had run before, the last one last: {earlier}\n{stacks.read_text()}"
        )
        print(f"\ntest process {node.gateway.id}: {_endings[node.gateway.id]}")
    stacks.unlink()


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(report: Any) -> None:
    """Add the same to the failure of the test that was under way."""
    report.longrepr += f"\n{_endings[report.node.gateway.id]}"


def _stacks(process: Mapping[str, str]) -> Path:
    """Return the file for the stacks of a process that dies."""
    return Path(tempfile.gettempdir()) / f"mxtrain-tests-{process['testrunuid']}-{process['workerid']}"
