"""Cases of a test that are tried at leisure, as another one of it holds the same in `make test`."""

from __future__ import annotations

from typing import Any

import pytest


def slow_cases(*cases: Any) -> list[Any]:
    """Return the cases as parameters of a test, marked slow; one that is a tuple has several values."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for case in cases
    ]
