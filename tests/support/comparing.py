"""Comparing values as JSON has them, and arrays, with a tolerance."""

from __future__ import annotations

from typing import Any

import numpy as np


def assert_close(
    found: Any, expected: Any, tolerance: float, where: str = "", may_have_more: bool = False
) -> None:
    """Equal up to a rounding of every number; to the bit where `tolerance` is 0. What is found may have more keys."""
    if isinstance(expected, dict):
        missing = expected.keys() - found.keys() if may_have_more else expected.keys() ^ found.keys()
        assert not missing, f"{where}: {missing}"
        pairs = [(found[name], value, f".{name}") for name, value in expected.items()]
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        pairs = [(*pair, f"[{number}]") for number, pair in enumerate(zip(found, expected))]
    else:
        pairs = []
        if isinstance(expected, (float, np.ndarray)):
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance, err_msg=where)
        else:
            assert found == expected, where
    for *pair, place in pairs:
        assert_close(*pair, tolerance, where + place, may_have_more)
