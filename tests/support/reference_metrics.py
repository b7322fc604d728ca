"""scikit-learn's metrics, which those of the tasks are compared with."""

from __future__ import annotations

from typing import Any

import pytest


def sklearn() -> Any:
    """Import them where they are first used: they take a second, which each process that collects tests would wait."""
    return pytest.importorskip("sklearn.metrics")
