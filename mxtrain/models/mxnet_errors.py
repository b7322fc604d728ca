"""Errors of MXNet's operators: forgetting them all, as some come late, and their reason in words."""

from __future__ import annotations

import contextlib

from mxtrain.core import errors
from mxtrain.runtime import mx

MOST_ERRORS = 100  # that a pass through a graph may leave with MXNet's engine


def forget() -> None:
    """Wait for everything: each array that a failed operator should have written raises its error once."""
    for _ in range(MOST_ERRORS):
        with contextlib.suppress(mx.base.MXNetError):
            mx.nd.waitall()
            return


def reason_of(error: Exception) -> str:
    """Return the sentence of an MXNet error, without the C++ stack around it; of another one its type and text."""
    if not isinstance(error, mx.base.MXNetError):
        return errors.message_of(error)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if "Check failed" in line or "Error in operator" in line]
    line = (causes or lines or [type(error).__name__])[-1]
    return line.split("Error: ")[-1][:200]
