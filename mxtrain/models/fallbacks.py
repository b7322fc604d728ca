"""Failures of mxtrain's own graphs, without which a net computes by another one, and a line says so.

Such a failure is a bug of ours that would otherwise be seen in times alone, so where the variable REFUSED is 1, as
in our tests, it is an error.
"""

from __future__ import annotations

import logging
import os

from mxtrain.models import mxnet_errors

logger = logging.getLogger(__name__)

REFUSED = "MXTRAIN_NO_FALLBACKS"
AS_IT_IS, ANSWERS_AS_IT_IS = "it stays as it is", "it answers as it is"


class RewriteFailed(RuntimeError):
    """A rewrite of a graph that ends in an error, or in no graph of the same inputs, whatever the net."""


class FallbackRefused(RuntimeError):
    """A graph of ours has failed where that is to end the process."""


def report(what: str, error: Exception, instead: str) -> None:
    """Say in the log that `what` has failed by an error, and what is done `instead`; raises where that is refused."""
    line = f"{what} ({mxnet_errors.reason_of(error)}): {instead}. This is a bug of mxtrain: please report it"
    if os.environ.get(REFUSED) == "1":
        raise FallbackRefused(line) from error
    logger.warning("%s", line)
