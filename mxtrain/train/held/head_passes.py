"""The passes of a step through a net whose head is in chunks, which are with their owners (`--head-chunk`).

Between the forward and the backward pass all micro-batches go through one chunk of the head after the other
(`kvstore/owners/owned_head.py`). The last segment is computed before, and goes back behind them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Sequence

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.kvstore.owners.owned_head import OwnedArray, OwnedHead, SampledHead
from mxtrain.kvstore.owners.owner import Owners
from mxtrain.models.heads.chunked_head import Samples
from mxtrain.models.heads.class_chunks import ChunkedHead
from mxtrain.models.heads.margins import Margin
from mxtrain.optim.sums.grid import Grid
from mxtrain.runtime import mx
from mxtrain.runtime.types import Parameter
from mxtrain.tasks.classes import HEAD_CLASSES, ChunkedForward
from mxtrain.train.held.micro_batches import MicroBatch
from mxtrain.train.held.passes import Passes
from mxtrain.train.held.segment_weights import Stage
from mxtrain.train.step import row_of
from mxtrain.train.step_end import StepRow

if TYPE_CHECKING:
    from mxtrain.runtime.types import NDArray, NDArrays


def owned_head(
    head: ChunkedHead,
    owners: Owners,
    parameters: Sequence[Parameter],
    grid: Grid | None,
    margin: Margin | None,
) -> OwnedHead:
    """Return the head of a net whose `parameters` have these owners, in the same order."""
    trained = [each.name for each in parameters if each.grad_req != "null"]
    indices = {each.name: index for index, each in enumerate(parameters)}

    def array_of(parameter: Any) -> OwnedArray:
        blocks = None
        if parameter.name in trained:
            place = trained.index(parameter.name)
            blocks = slice(0) if grid is None else grid.blocks_of(place)
        return OwnedArray(indices[parameter.name], tuple(parameter.shape), blocks)

    return OwnedHead(owners, [list(map(array_of, chunk.parameters)) for chunk in head.chunks], margin)


class End(NamedTuple):
    """The end of a micro-batch's way through the net."""

    features: NDArray
    data: NDArray  # the last segment's input


class HeadPasses(Passes):
    """Passes between whose two halves is a head in chunks."""

    def _through_the_last(self, stage: Stage, weights: NDArrays, rows: dict[int, StepRow]) -> None:
        last = stage[-1]
        # Of a net in one piece all activations would be kept, of all micro-batches: it is computed again.
        is_kept = last > 0 or len(self.micro_batches) == 1
        self.gradients.prepare(last, weights)
        ends = [self._end(each, stage, weights, is_kept) for each in self.micro_batches]
        of_features = self._through_the_head([each.features for each in ends], rows)
        for each, gradient in zip(self.micro_batches, of_features):
            self.statistics.before_batch(last)
            self.gradients.prepare(last, weights)
            end = ends.pop(0)
            end = end if is_kept else self._end(each, stage, weights, True)
            is_last = each is self.micro_batches[-1]
            # MXNet would forget what takes no gradient, which the graphs of all have in common.
            end.features.backward(mx.nd.array(gradient), retain_graph=not is_last)
            mx.nd.waitall()
            each.gradient = end.data.grad
            self.gradients.add(last, is_last)
            self.statistics.after_batch(last, each.position)

    def _end(self, micro_batch: MicroBatch, stage: Stage, weights: NDArrays, is_recorded: bool) -> End:
        """Compute what is left of the net; return the features, from which a gradient goes back if `is_recorded`."""
        net, ends = self._rest(micro_batch, stage, weights)
        mx.random.seed(micro_batch.seed, ctx=self.context.devices[0])
        with mx.autograd.record() if is_recorded else mx.autograd.pause(train_mode=True):
            features = self._forward_function.features(net, micro_batch.arrays)
        features.wait_to_read()
        return End(features, ends[0])

    def _through_the_head(self, features: Sequence[NDArray], rows: dict[int, StepRow]) -> list[Array]:
        """Note the row of each micro-batch, and return the gradients of their features."""
        head, forward = self._head(), self._forward_function
        scale = np.float32(self.scale)
        samples = []
        for each, of_batch in zip(self.micro_batches, features):
            label = each.arrays["label"]
            counts = forward.counts(label)
            scaled = scale if counts is None else counts.asnumpy() * scale
            labels = label.asnumpy().astype(np.int64)
            if HEAD_CLASSES in each.arrays:
                labels = np.searchsorted(each.arrays[HEAD_CLASSES].asnumpy(), labels)
            samples.append(Samples(of_batch.asnumpy(), labels, np.asarray(scaled, np.float64)))
        softmaxes = head.forward(samples)
        for each, softmax in zip(self.micro_batches, softmaxes):
            outcome = forward.outcome(mx.nd.array(softmax.losses), softmax, each.arrays["label"])
            rows[each.position] = row_of(self.context, outcome, each.num_samples)
        return self.gradients.through_head(head, samples, softmaxes)

    def _head(self) -> OwnedHead | SampledHead:
        head = self.net.owned_head()
        if HEAD_CLASSES not in self.micro_batches[0].arrays:
            return head
        return head.of_classes([each.arrays[HEAD_CLASSES].asnumpy() for each in self.micro_batches])

    @property
    def _forward_function(self) -> ChunkedForward:
        forward = self.context.forward
        assert isinstance(forward, ChunkedForward), "the task that put the head into the net has its losses"
        return forward
