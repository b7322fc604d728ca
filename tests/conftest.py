"""What holds for every test."""

from __future__ import annotations

import os
from typing import Any, Generator

import pytest
from hypothesis import settings

# How long an example takes is the machine's affair, which may be busy; pytest's own timeout ends what hangs.
settings.register_profile("patient", parent=settings(), deadline=None)
settings.load_profile("patient")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Where NO_SKIPS=1 (CI, which installs what system tests need), a system test that skips has failed."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and item.get_closest_marker("system") and os.environ.get("NO_SKIPS") == "1":
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} may not skip here: {report.longrepr}"
