"""Tests of the library run in a process as programs have it, without what a run changes in MXNet."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def compiling() -> None:
    """Leave MXNet as it is."""
