"""The exact softmax over very many classes, by the weights of a chunk of classes at a time.

Owns two passes over the chunks. `softmax` finds the loss of each sample: the largest logit so far, the sum of
exponentials beside it, and the logit of the sample's own class. `gradients` computes the logits again, hands out the
gradient of each chunk of weights as it comes, and returns that of the features. Who holds the weights is the caller's
affair: `pull` and `push`. So are lengths of chunks, and which classes are in them: a label is a place among all that
the chunks hold, end to end. Never more than two chunks are needed at once, one of weights and one of their gradient;
logits are computed for `BLOCK` classes at a time. The same arrays have the same bits, with the same number of threads.

A head has no bias here; one is the weight of a feature that is always 1. With a margin, logits are scaled cosines.
"""

from __future__ import annotations

from typing import Callable, Iterator, NamedTuple, Sequence

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.models.margins import SMALLEST_SQUARE, Margin

Pull = Callable[[int], Array]  # from a chunk's number to its weights, (classes, width); they are only read
# Takes the gradient of a chunk; its array is written to again once this returns.
Push = Callable[[int, Array], None]

BLOCK = 4096  # classes: their weights and logits stay in a core's cache
LOWEST = float(np.finfo(np.float32).min)


class Softmax(NamedTuple):
    """The result of the first pass for each sample, in float64."""

    losses: Array
    own_logits: Array
    own_slopes: Array  # by how much an own logit changes with what it is without a margin
    log_sums: Array  # of the exponentials of all logits


class _Block(NamedTuple):
    """The rows of a block in its chunk, and the samples whose own class is in it."""

    rows: slice
    samples: Array
    columns: Array  # of these samples' classes, in the block


def softmax(
    features: Array, labels: Array, lengths: Sequence[int], pull: Pull, margin: Margin | None = None
) -> Softmax:
    """Return the softmax of features (samples, width), with chunks of so many classes, from the first to the last."""
    units, _ = _units(features, margin)
    sums = _Sums(np.full(len(labels), LOWEST), np.zeros(len(labels)), np.zeros(len(labels)))
    for chunk, first in enumerate(_firsts(lengths)):
        _add(sums, units, labels - first, pull(chunk), margin)  # which nothing holds once it is added
    slopes, own = np.ones(len(labels)), sums.own
    if margin is not None:
        own, slopes = margin.logits(own / margin.scale)
    with np.errstate(divide="ignore"):  # a single class has no others
        others = sums.largest + np.log(sums.others)
    return Softmax(np.logaddexp(0, others - own), own, slopes, np.logaddexp(others, own))


def gradients(
    features: Array,
    labels: Array,
    lengths: Sequence[int],
    forward: Softmax,
    pull: Pull,
    push: Push,
    counts: Array | float = 1.0,
    margin: Margin | None = None,
) -> Array:
    """Push the gradient of each chunk, from the last to the first, and return the features'.

    They are of the sum of losses, each times the `counts` of its sample. The first that is pulled is the chunk that
    `softmax` pulled last.
    """
    units, sizes = _units(features, margin)
    step = _Backward(units, np.zeros(units.shape), forward, np.broadcast_to(counts, labels.shape), margin)
    buffer = np.empty((max(lengths), units.shape[1]), units.dtype)
    for chunk, first in reversed(list(enumerate(_firsts(lengths)))):
        gradient = buffer[: lengths[chunk]]
        _fill(gradient, step, labels - first, pull(chunk))
        push(chunk, gradient)
    of_units = step.of_units
    if margin is not None:  # a change of features in their own direction changes no cosine
        of_units = (of_units - units * _products(of_units, units)[:, None]) / sizes
    return of_units.astype(features.dtype)


class _Sums(NamedTuple):
    """The sums of the chunks so far, of each sample; written in place."""

    largest: Array  # logit of another class than its own
    others: (
        Array  # the sum of exp(logit - largest) over other classes than its own: they may be tiny beside that
    )
    own: Array  # the logit of its own class


class _Backward(NamedTuple):
    """The numbers of the second pass; `of_units`, a gradient, is added to in place."""

    units: Array
    of_units: Array
    softmax: Softmax
    counts: Array
    margin: Margin | None


def _add(sums: _Sums, units: Array, positions: Array, weights: Array, margin: Margin | None) -> None:
    """Add a chunk, in which the samples' own classes have these positions, where they are in it."""
    for block in _blocks(positions, len(weights)):
        logits, _ = _logits(units, weights[block.rows], margin)
        sums.own[block.samples] = logits[block.samples, block.columns]
        logits[block.samples, block.columns] = -np.inf
        largest = np.maximum(sums.largest, logits.max(axis=1))
        sums.others[:] *= np.exp(sums.largest - largest)
        sums.others[:] += _exponentials(logits, largest).sum(axis=1, dtype=np.float64)
        sums.largest[:] = largest


def _fill(gradient: Array, step: _Backward, positions: Array, weights: Array) -> None:
    """Compute the gradient of a chunk, and add to the features'."""
    softmax, margin = step.softmax, step.margin
    counts = step.counts.astype(weights.dtype)[:, None]
    of_own = step.counts * softmax.own_slopes * np.expm1(softmax.own_logits - softmax.log_sums)
    for block in _blocks(positions, len(weights)):
        rows, of_rows = weights[block.rows], gradient[block.rows]
        logits, squares = _logits(step.units, rows, margin)
        of_logits = _exponentials(logits, softmax.log_sums)
        of_logits *= counts
        of_logits[block.samples, block.columns] = of_own[block.samples]
        if margin is not None:
            of_logits *= margin.scale / np.sqrt(squares)
        step.of_units[:] += of_logits @ rows
        np.matmul(of_logits.T, step.units, out=of_rows)
        if margin is not None:
            of_rows -= rows * (_products(of_rows, rows) / squares)[:, None]


def _units(features: Array, margin: Margin | None) -> tuple[Array, Array]:
    """Return what is multiplied with weights, and the length of each sample's features."""
    sizes = np.sqrt(_products(features, features, np.float64) + SMALLEST_SQUARE)[:, None]
    return (features if margin is None else (features / sizes).astype(features.dtype)), sizes


def _logits(units: Array, weights: Array, margin: Margin | None) -> tuple[Array, Array]:
    """Return the logits of a block without margins, and the squared lengths of its weights where cosines need them."""
    logits = units @ weights.T
    if margin is None:
        return logits, weights[:0]
    squares = _products(weights, weights) + weights.dtype.type(SMALLEST_SQUARE)
    logits *= margin.scale / np.sqrt(squares)
    return logits, squares


def _exponentials(logits: Array, less: Array) -> Array:
    """Return exp(logits - less), a number for each sample, in the place of logits."""
    near = less.astype(logits.dtype)
    logits -= near[:, None]
    np.exp(logits, out=logits)
    logits *= np.exp(near - less).astype(logits.dtype)[:, None]  # what rounding took
    return logits


def _products(left: Array, right: Array, dtype: type | None = None) -> Array:
    """Return the inner product of each row with the other's."""
    found: Array = np.einsum("ij,ij->i", left, right, dtype=dtype)
    return found


def _firsts(lengths: Sequence[int]) -> Iterator[int]:
    """Yield the first class of each chunk."""
    first = 0
    for length in lengths:
        yield first
        first += length


def _blocks(positions: Array, length: int) -> Iterator[_Block]:
    """Yield the blocks of a chunk of so many classes, in which the samples' own classes have these positions."""
    for start in range(0, length, BLOCK):
        stop = min(start + BLOCK, length)
        (samples,) = np.nonzero((positions >= start) & (positions < stop))
        yield _Block(slice(start, stop), samples, positions[samples] - start)
