"""The exact softmax over very many classes, by the weights of a chunk of classes at a time.

Owns two passes over the chunks. `softmax` finds the loss of each sample: the largest logit so far, the sum of
exponentials beside it, and the logit of the sample's own class. `gradients` computes the logits again, hands out the
gradient of each chunk of weights as it comes, and returns that of the features. Who holds the weights is the caller's
affair: `pull` and `push`. So are lengths of chunks, and which classes are in them: a label is a place among all that
the chunks hold, end to end. Never more than two chunks are needed at once, one of weights and one of their gradient;
logits are computed for `BLOCK` classes at a time.

All micro-batches of a step go through a chunk while it is here, each computed apart: so no bit of one depends on the
others, and the gradients of weights add up as `add` does it. The same arrays have the same bits, with the same number
of threads. With a margin, logits are scaled cosines, and there are no biases.
"""

from __future__ import annotations

import itertools
from typing import Callable, NamedTuple, Sequence

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.models.heads.margins import SMALLEST_SQUARE, Margin

BLOCK = 2048  # classes: their weights and logits stay in a core's cache
LOWEST = float(np.finfo(np.float32).min)


class Chunk(NamedTuple):
    """The weights of some classes, or their gradients."""

    weights: Array  # (classes, width)
    biases: Array | None = None  # (classes,)

    def rows(self, rows: slice) -> Chunk:
        """Return those of some of the classes, where they are."""
        return Chunk(self.weights[rows], None if self.biases is None else self.biases[rows])


Pull = Callable[[int], Chunk]  # from a chunk's number to its weights, which are only read
# Takes the gradient of a chunk; its arrays are written to again once this returns.
Push = Callable[[int, Chunk], None]


class Samples(NamedTuple):
    """A micro-batch, and how much the loss of each sample counts in gradients."""

    features: Array  # (samples, width)
    labels: Array
    counts: Array | float = 1.0


# Adds to the total of some rows of a chunk, the last argument, the gradient by the micro-batch of a number, 0 first.
Add = Callable[[int, slice, int, Chunk, Chunk], None]


class Softmax(NamedTuple):
    """The result of the first pass for each sample, in float64."""

    losses: Array
    own_logits: Array
    own_slopes: Array  # by how much an own logit changes with what it is without a margin
    log_sums: Array  # of the exponentials of all logits
    own_plain: Array  # own logits without a margin
    largest: Array  # logits of other classes than a sample's own

    @property
    def are_right(self) -> Array:
        """True where a sample's own class is likelier than all others, without a margin."""
        return np.asarray(self.own_plain > self.largest)


def softmax(
    micro_batches: Sequence[Samples], lengths: Sequence[int], pull: Pull, margin: Margin | None = None
) -> list[Softmax]:
    """Return the softmax of each micro-batch, with chunks of so many classes, from the first to the last."""
    sums = [_Sums.of(each, margin) for each in micro_batches]
    for chunk, first in enumerate(firsts(lengths)):
        _add_chunk(sums, first, pull(chunk), margin)  # which nothing holds once it is added
    return [each.softmax(margin) for each in sums]


def plain_sum(chunk: int, rows: slice, number: int, addition: Chunk, total: Chunk) -> None:
    """Add in the numbers' own type, micro-batch by micro-batch."""
    for array, values in zip(total, addition):
        if array is None or values is None:
            continue
        if number == 0:
            array[:] = values
        else:
            array += values


def gradients(
    micro_batches: Sequence[Samples],
    forward: Sequence[Softmax],
    lengths: Sequence[int],
    pull: Pull,
    push: Push,
    margin: Margin | None = None,
    add: Add = plain_sum,
) -> list[Array]:
    """Push the gradient of each chunk, from the last to the first, and return that of each micro-batch's features.

    They are of the sum of losses, each times what it counts. The first chunk that is pulled is the one that `softmax`
    pulled last.
    """
    steps = [_Backward.of(each, found, margin) for each, found in zip(micro_batches, forward)]
    units, longest = steps[0].units, max(lengths)
    buffer = Chunk(np.empty((longest, units.shape[1]), units.dtype), np.empty(longest, units.dtype))
    for chunk, first in reversed([*enumerate(firsts(lengths))]):
        gradient = buffer.rows(slice(lengths[chunk]))
        push(chunk, _filled(gradient, steps, chunk, first, pull(chunk), margin, add))
    return [each.of_features(margin) for each in steps]


class _Sums(NamedTuple):
    """The sums of the chunks so far, of each sample of a micro-batch; written in place."""

    units: Array
    labels: Array
    largest: Array  # logit of another class than its own
    others: (
        Array  # the sum of exp(logit - largest) over other classes than its own: they may be tiny beside that
    )
    own: Array  # the logit of its own class

    @classmethod
    def of(cls, samples: Samples, margin: Margin | None) -> _Sums:
        lowest, zeros = np.full(len(samples.labels), LOWEST), np.zeros((2, len(samples.labels)))
        return cls(units_of(samples.features, margin)[0], samples.labels, lowest, *zeros)

    def add(self, logits: Array, samples: Array, columns: Array) -> None:
        """Add the logits of a block, in which these samples have their own classes in these columns."""
        self.own[samples] = logits[samples, columns]
        logits[samples, columns] = -np.inf
        largest = np.maximum(self.largest, logits.max(axis=1))
        self.others[:] *= np.exp(self.largest - largest)
        self.others[:] += _exponentials(logits, largest).sum(axis=1, dtype=np.float64)
        self.largest[:] = largest

    def softmax(self, margin: Margin | None) -> Softmax:
        slopes, own = np.ones(len(self.own)), self.own
        if margin is not None:
            own, slopes = margin.logits(own / margin.scale)
        with np.errstate(divide="ignore"):  # a single class has no others
            others = self.largest + np.log(self.others)
        losses, log_sums = np.logaddexp(0, others - own), np.logaddexp(others, own)
        return Softmax(losses, own, slopes, log_sums, self.own, self.largest)


class _Backward(NamedTuple):
    """The numbers of a micro-batch in the second pass; `of_units`, a gradient, is added to in place."""

    units: Array
    sizes: Array  # the lengths of features
    labels: Array
    counts: Array
    of_own: Array  # the gradient of each sample's own logit, as it is without a margin
    log_sums: Array
    of_units: Array

    @classmethod
    def of(cls, samples: Samples, forward: Softmax, margin: Margin | None) -> _Backward:
        units, sizes = units_of(samples.features, margin)
        counts = np.broadcast_to(samples.counts, samples.labels.shape)
        of_own = counts * forward.own_slopes * np.expm1(forward.own_logits - forward.log_sums)
        counts = counts.astype(units.dtype)[:, None]
        return cls(units, sizes, samples.labels, counts, of_own, forward.log_sums, np.zeros(units.shape))

    def of_logits(self, logits: Array, samples: Array, columns: Array) -> Array:
        """Return the gradient of a block's logits, in their place."""
        found = _exponentials(logits, self.log_sums)
        found *= self.counts
        found[samples, columns] = self.of_own[samples]
        return found

    def of_features(self, margin: Margin | None) -> Array:
        found = self.of_units
        if margin is not None:  # a change of features in their own direction changes no cosine
            found = (found - self.units * _products(found, self.units)[:, None]) / self.sizes
        return found.astype(self.units.dtype)


def _add_chunk(sums: Sequence[_Sums], first: int, chunk: Chunk, margin: Margin | None) -> None:
    """Add a chunk, whose first class is `first`."""
    for rows in blocks(len(chunk.weights)):
        block = chunk.rows(rows)
        squares = squared_lengths(block, margin)
        for each in sums:
            logits = logits_of(each.units, block, squares, margin)
            each.add(logits, *_own(each.labels, first, rows))


def _filled(
    gradient: Chunk,
    steps: Sequence[_Backward],
    chunk: int,
    first: int,
    weights: Chunk,
    margin: Margin | None,
    add: Add,
) -> Chunk:
    """Return the gradient of a chunk, whose first class is `first`, in these arrays, and add to those of features."""
    if weights.biases is None:
        gradient = Chunk(gradient.weights)
    for rows in blocks(len(weights.weights)):
        block = weights.rows(rows)
        squares = squared_lengths(block, margin)
        for number, step in enumerate(steps):
            logits = logits_of(step.units, block, squares, margin)
            of_logits = step.of_logits(logits, *_own(step.labels, first, rows))
            of_biases = None if block.biases is None else of_logits.sum(axis=0)
            if margin is not None:
                of_logits *= margin.scale / np.sqrt(squares)
            step.of_units[:] += of_logits @ block.weights
            of_rows: Array = of_logits.T @ step.units
            if margin is not None:
                of_rows -= block.weights * (_products(of_rows, block.weights) / squares)[:, None]
            add(chunk, rows, number, Chunk(of_rows, of_biases), gradient.rows(rows))
    return gradient


def units_of(features: Array, margin: Margin | None) -> tuple[Array, Array]:
    """Return what is multiplied with weights, and the length of each sample's features."""
    sizes = np.sqrt(_products(features, features, np.float64) + SMALLEST_SQUARE)[:, None]
    return (features if margin is None else (features / sizes).astype(features.dtype)), sizes


def squared_lengths(block: Chunk, margin: Margin | None) -> Array:
    """Return the squared lengths of rows, where cosines need them."""
    weights = block.weights
    if margin is None:
        return weights[:0]
    return _products(weights, weights) + weights.dtype.type(SMALLEST_SQUARE)


def logits_of(units: Array, block: Chunk, squares: Array, margin: Margin | None) -> Array:
    """Return the logits of a block without margins."""
    logits: Array = units @ block.weights.T
    if margin is not None:
        logits *= margin.scale / np.sqrt(squares)
    elif block.biases is not None:
        logits += block.biases
    return logits


def _exponentials(logits: Array, less: Array) -> Array:
    """Return exp(logits - less), a number for each sample, in the place of logits."""
    near = less.astype(logits.dtype)
    logits -= near[:, None]
    np.exp(logits, out=logits)
    logits *= np.exp(near - less).astype(logits.dtype)[:, None]  # what rounding took
    return logits


def _products(left: Array, right: Array, dtype: type | None = None) -> Array:
    """Return the inner product of each row with the other's."""
    return np.asarray(np.einsum("ij,ij->i", left, right, dtype=dtype))


def firsts(lengths: Sequence[int]) -> list[int]:
    """Return the first class of each chunk."""
    return [0, *itertools.accumulate(lengths)][:-1]


def blocks(length: int) -> list[slice]:
    """Return the rows of each block of a chunk of so many classes."""
    return [slice(start, min(start + BLOCK, length)) for start in range(0, length, BLOCK)]


def _own(labels: Array, first: int, rows: slice) -> tuple[Array, Array]:
    """Return the samples whose own class is in these rows of a chunk that begins with the class `first`, and where."""
    positions = labels - (first + rows.start)
    (samples,) = np.nonzero((positions >= 0) & (positions < rows.stop - rows.start))
    return samples, positions[samples]
