"""Formulas of metrics that rank the candidates of each user: `--metric ndcg`, `recall_at`.

Owns the formulas. A state has a row for each candidate: its score, its gain and its user. Candidates with one score
share their ranks, so a number is the mean over all orders that the scores leave open, and no order of the samples
changes it. Users without a gain do not count, and neither do candidates whose label is not known.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.fields import Array
from mxtrain.tasks.metrics.metric_functions import Floats, Formula

HALF = 32  # bits of an id, all of which no float64 holds


def _rows_of_labels(predictions: Array, targets: Array, groups: Array) -> Array:
    labels = _one_a_sample("labels", targets)
    return _rows(predictions, (labels > 0).astype(np.float64), groups)[labels >= 0]


def _rows_of_numbers(predictions: Array, targets: Array, groups: Array) -> Array:
    gains = _one_a_sample("targets", targets)
    if (gains < 0).any():
        raise DataError(
            f"--metric ndcg: takes the targets as gains, and one is {gains.min():g}; none may be below 0"
        )
    return _rows(predictions, gains, groups)


def _rows(predictions: Array, gains: Floats, groups: Array) -> Array:
    high, low = groups >> HALF, groups & ((1 << HALF) - 1)
    return np.stack([_one_a_sample("scores", predictions), gains, high, low], axis=1)


def _one_a_sample(noun: str, values: Array) -> Floats:
    flat = values.reshape(-1).astype(np.float64)
    if len(flat) != len(values):
        raise UsageError(
            f"--metric: a ranking takes one score and one target of each sample, and gets {values.size // len(values)} "
            f"{noun}; leave out ndcg and recall_at"
        )
    return flat


class Ranking(NamedTuple):
    """Candidates by user, those of each from the highest score on."""

    gains: Floats
    rank: Array  # of each among the candidates of the user, from 0
    users: Array  # the position of each user's first candidate
    ties: Array  # the position of the first of those of a user that have one score


def _ranking(table: Floats) -> Ranking:
    scores, gains, high, low = table.T
    ids = (high.astype(np.int64) << HALF) + low.astype(np.int64)
    order = np.lexsort((-gains, -scores, ids))  # the same whatever the order of the rows
    scores, gains, ids = scores[order], gains[order], ids[order]
    begins_user = np.append(True, ids[1:] != ids[:-1])
    begins_tie = begins_user | np.append(True, scores[1:] != scores[:-1])
    users = np.flatnonzero(begins_user)
    rank = np.arange(len(ids)) - np.repeat(users, np.diff(users, append=len(ids)))
    return Ranking(gains, rank, users, np.flatnonzero(begins_tie))


def _expected(ranking: Ranking, gains: Floats, weights: Floats) -> Floats:
    """Return the sum over each user's candidates of a gain times the weight of its rank, on average over ties."""
    sizes = np.diff(ranking.ties, append=len(gains))
    of_ties = np.add.reduceat(gains, ranking.ties) / sizes * np.add.reduceat(weights, ranking.ties)
    return np.add.reduceat(of_ties, np.searchsorted(ranking.ties, ranking.users))


def _mean_share(parts: Floats, wholes: Floats) -> float:
    """Return the mean over users with a whole; its sum is rounded once."""
    has_gain = wholes > 0
    shares = np.minimum(parts[has_gain] / wholes[has_gain], 1)
    return math.fsum(shares) / len(shares) if len(shares) else math.nan


def _ndcg(table: Floats, k: int) -> float:
    if not len(table):
        return math.nan
    ranking = _ranking(table)
    discounts = np.where(ranking.rank < k, 1 / np.log2(ranking.rank + 2.0), 0)
    user = np.cumsum(ranking.rank == 0)
    best = ranking.gains[np.lexsort((-ranking.gains, user))]
    return _mean_share(
        _expected(ranking, ranking.gains, discounts), np.add.reduceat(best * discounts, ranking.users)
    )


def _recall_at(table: Floats, k: int) -> float:
    if not len(table):
        return math.nan
    ranking = _ranking(table)
    is_first = (ranking.rank < k).astype(np.float64)
    return _mean_share(
        _expected(ranking, ranking.gains, is_first), np.add.reduceat(ranking.gains, ranking.users)
    )


NDCG_OF_LABELS = Formula(_rows_of_labels, _ndcg)
NDCG_OF_NUMBERS = Formula(_rows_of_numbers, _ndcg)
RECALL_AT = Formula(_rows_of_labels, _recall_at)
