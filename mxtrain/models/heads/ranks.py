"""The place of each sample's own class among very many, and its likeliest class, by a chunk of classes at a time.

Owns one more pass over the chunks, behind that of `chunked_head.softmax`: for evaluations, which keep no row of logits.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.models.heads import chunked_head
from mxtrain.models.heads.chunked_head import Pull, Samples, Softmax
from mxtrain.models.heads.margins import Margin


class Ranks(NamedTuple):
    """The places of samples' own classes, and their likeliest classes."""

    own: Array  # int64: how many classes are likelier; of equals the first is before
    likeliest: Array  # int64
    probabilities: Array  # of the likeliest class


def ranks(
    samples: Samples, forward: Softmax, lengths: Sequence[int], pull: Pull, margin: Margin | None = None
) -> Ranks:
    """Return the ranks of a micro-batch.

    Args:
        samples: the micro-batch.
        forward: what `softmax` has returned for it, of the same chunks.
        lengths: how many classes each chunk has.
        pull: brings the weights of a chunk.
        margin: the scale of cosines; its margin does not count.
    """
    units, count = chunked_head.units_of(samples.features, margin)[0], len(samples.labels)
    own, own_logits = np.zeros(count, np.int64), forward.own_plain[:, None]
    likeliest, highest = np.zeros(count, np.int64), np.full(count, -np.inf)
    for chunk, first in enumerate(chunked_head.firsts(lengths)):
        weights = pull(chunk)
        for rows in chunked_head.blocks(lengths[chunk]):
            block = weights.rows(rows)
            logits = chunked_head.logits_of(units, block, chunked_head.squared_lengths(block, margin), margin)
            classes = np.arange(first + rows.start, first + rows.stop)
            is_before = classes < samples.labels[:, None]
            own += ((logits > own_logits) | ((logits == own_logits) & is_before)).sum(axis=1)
            columns = logits.argmax(axis=1)
            of_block = logits[np.arange(count), columns].astype(np.float64)
            is_higher = of_block > highest
            likeliest = np.where(is_higher, classes[columns], likeliest)
            highest = np.where(is_higher, of_block, highest)
        del weights  # before the next ones come
    own = np.where(np.isnan(forward.own_plain), sum(lengths), own)
    return Ranks(own, likeliest, np.exp(highest - forward.log_sums))
