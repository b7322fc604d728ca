"""The losses of a head in chunks whose weights are in a net of MXNet's: its gradients go where all others go.

Owns the step from MXNet's arrays to those of `chunked_head.py`, and back.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.models.heads import chunked_head, class_samples, ranks
from mxtrain.models.heads.chunked_head import Chunk, Samples, Softmax
from mxtrain.models.heads.class_chunks import ChunkedHead
from mxtrain.models.heads.margins import Margin
from mxtrain.models.heads.ranks import Ranks
from mxtrain.runtime import mx
from mxtrain.runtime.types import NDArray


def losses(
    head: ChunkedHead,
    features: NDArray,
    labels: Array,
    margin: Margin | None,
    classes: Array | None = None,
) -> tuple[NDArray, Softmax]:
    """Return the loss of each sample, with gradients of features and weights, and what it is made of.

    It is over all classes, or over these, sorted, those of the labels among them.
    """
    function = _ChunkedLoss(head, features, labels, margin, classes)
    return function(features, *function.trained), function.softmax


def plain_ranks(
    head: ChunkedHead, features: NDArray, labels: Array, margin: Margin | None
) -> tuple[Softmax, Ranks]:
    """Return the softmax of samples without the margin, and their ranks; for no gradients."""
    samples = Samples(features.asnumpy(), labels)
    pull = (head.lender or _Weights(head, features.context)).pull
    margin = margin and margin.without()
    (forward,) = chunked_head.softmax([samples], head.lengths, pull, margin)
    return forward, ranks.ranks(samples, forward, head.lengths, pull, margin)


class _Weights:
    """The arrays of a head on a device."""

    def __init__(self, head: ChunkedHead, device: Any):
        self.arrays = [[each.data(device) for each in chunk.parameters] for chunk in head.chunks]

    def pull(self, chunk: int) -> Chunk:
        return Chunk(*(each.asnumpy() for each in self.arrays[chunk]))


class _ChunkedLoss(mx.autograd.Function):
    """The function from features and the head's trained arrays to losses."""

    def __init__(
        self,
        head: ChunkedHead,
        features: NDArray,
        labels: Array,
        margin: Margin | None,
        classes: Array | None,
    ):
        super().__init__()
        self._head, self._labels, self._margin, self._classes = head, labels, margin, classes
        self._weights = _Weights(head, features.context)
        self._lengths, self._pull = head.lengths, self._weights.pull
        if classes is not None:
            taken = class_samples.gathered(classes, head.lengths, self._weights.pull)
            self._lengths, self._pull = [len(classes)], lambda chunk: taken
            self._labels = np.searchsorted(classes, labels)
        # MXNet 1.9.1 passes no gradient on behind an input that wants none.
        self._are_trained = [[each.grad_req != "null" for each in chunk.parameters] for chunk in head.chunks]
        self.trained = [
            array
            for arrays, are_trained in zip(self._weights.arrays, self._are_trained)
            for array, is_trained in zip(arrays, are_trained)
            if is_trained
        ]

    def forward(self, features: NDArray, *trained: NDArray) -> NDArray:
        self._samples = Samples(features.asnumpy(), self._labels)
        (self.softmax,) = chunked_head.softmax([self._samples], self._lengths, self._pull, self._margin)
        return mx.nd.array(self.softmax.losses, ctx=features.context)

    def backward(self, of_losses: NDArray) -> Sequence[NDArray]:
        gradients: list[list[NDArray]] = [[] for _ in self._head.lengths]

        def push(chunk: int, gradient: Chunk) -> None:
            trained = zip(gradient, self._are_trained[chunk])
            gradients[chunk] = [
                mx.nd.array(each, dtype=np.float32) for each, is_trained in trained if is_trained
            ]

        def push_classes(_: int, gradient: Chunk) -> None:
            lengths, classes = self._head.lengths, np.asarray(self._classes)
            for chunk, place in enumerate(zip(chunked_head.firsts(lengths), lengths)):
                push(chunk, class_samples.scattered_chunk(gradient, classes, *place))

        samples = [self._samples._replace(counts=of_losses.asnumpy().astype(np.float64))]
        (of_features,) = chunked_head.gradients(
            samples,
            [self.softmax],
            self._lengths,
            self._pull,
            push if self._classes is None else push_classes,
            self._margin,
        )
        return [mx.nd.array(of_features), *(each for of_chunk in gradients for each in of_chunk)]
