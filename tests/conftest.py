"""What holds for every test."""

from __future__ import annotations

import os
from typing import Any, Generator

import pytest
from hypothesis import settings

# One thread an operator, as several tests run at once; and sums come in the same order whatever the machine.
# A command that a test starts inherits it, and its own --threads stands above it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# How long an example takes is the machine's affair, which may be busy; pytest's own timeout ends what hangs.
settings.register_profile("few", deadline=None, max_examples=40)
settings.register_profile("full", deadline=None, max_examples=300)  # make test-all
settings.load_profile("few")


# Where pytest runs in several processes, a file's tests stay in one of them. The jobs over clusters, of several
# processes with deadlines between them, all stay in the same, so that one runs at a time.
CLUSTERS = ("tests/cluster/", "tests/faults/")
LONG = ("tests/e2e/", "tests/unit/launch/")


def pytest_configure(config: pytest.Config) -> None:
    config.option.loadscopereorder = False  # by the number of tests; here those come first that take longest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.pluginmanager.hasplugin("xdist"):
        return
    items.sort(key=lambda item: (not item.nodeid.startswith(CLUSTERS), not item.nodeid.startswith(LONG)))
    for item in items:
        file = item.nodeid.partition("::")[0]
        item.add_marker(pytest.mark.xdist_group("clusters" if file.startswith(CLUSTERS) else file))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Where NO_SKIPS=1 (CI, which installs what system tests need), a system test that skips has failed."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and item.get_closest_marker("system") and os.environ.get("NO_SKIPS") == "1":
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} may not skip here: {report.longrepr}"
