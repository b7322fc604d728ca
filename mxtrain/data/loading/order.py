"""Which samples, and when: arithmetic on (seed, epoch, step), with no state and no file.

An epoch is a permutation, a step is a slice of it, and a step is cut into micro-batches. So every sample comes once an
epoch, the samples of a step do not depend on who computes them, and resuming in the middle is slicing. Who computes
which micro-batch is `config/batch_plan.py`'s; `sample_requests.py` puts both together.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from mxtrain.data.fields import Array

Ints = npt.NDArray[np.int64]
Samples = TypeVar("Samples", Ints, range)  # themselves, or their places in an epoch


def epoch_order(num_samples: int, seed: int, epoch: int) -> Ints:
    """The order in which an epoch visits the samples."""
    return np.random.Generator(np.random.PCG64([seed, epoch])).permutation(num_samples)


def windowed_order(chunks: Ints, chunks_per_window: int, seed: int, epoch: int) -> Ints:
    """The samples of chunks in random order, permuted within windows of some successive ones.

    `chunks` is the number of each sample's chunk. Whoever reads the samples needs a few chunks at a time, each once.
    """
    num_chunks = int(chunks.max(initial=-1)) + 1
    place = np.empty(num_chunks, np.int64)
    place[epoch_order(num_chunks, seed, epoch)] = np.arange(num_chunks)
    ties = epoch_order(len(chunks), seed, epoch)
    order: Ints = np.lexsort((ties, place[chunks] // chunks_per_window))
    return order


def balanced_order(classes: Array, seed: int, epoch: int) -> Ints:
    """As many samples as there are, every class as often as any other, to within one.

    A class goes through a permutation of its samples before any comes again, over as many epochs as that takes:
    none of a large class is left out for ever, none of a small one comes more often than its neighbours.
    """
    members = [np.flatnonzero(classes == which) for which in np.unique(classes)]
    drawn = [
        _endless(of_class, number, *_turns(number, len(classes), len(members), epoch), seed)
        for number, of_class in enumerate(members)
    ]
    samples = np.concatenate(drawn)
    return samples[epoch_order(len(samples), seed, epoch)]


def _turns(number: int, num_samples: int, num_classes: int, epoch: int) -> tuple[int, int]:
    """The draws of this class before the epoch, and in it; what does not divide goes round the classes."""

    def until(epoch: int) -> int:
        each, left = divmod(num_samples, num_classes)
        return epoch * each + (epoch * left - number + num_classes - 1) // num_classes

    return until(epoch), until(epoch + 1) - until(epoch)


def _endless(samples: Ints, number: int, start: int, count: int, seed: int) -> Ints:
    """From `start` on `count` of a class's permutations, one after the other."""
    first, last = start // len(samples), (start + count - 1) // len(samples)
    rounds = [
        samples[np.random.Generator(np.random.PCG64([seed, number, turn])).permutation(len(samples))]
        for turn in range(first, last + 1)
    ]
    drawn: Ints = np.concatenate([*rounds, samples[:0]])[start - first * len(samples) :][:count]
    return drawn


def steps_per_epoch(num_samples: int, batch_size: int) -> int:
    """The last step of an epoch is short when the batch size does not divide the samples; it is kept."""
    return -(-num_samples // batch_size)


def step_samples(order: Samples, step_in_epoch: int, batch_size: int) -> Samples:
    """The samples of one step, at most `batch_size`; IndexError behind the end of the epoch."""
    if not 0 <= step_in_epoch < steps_per_epoch(len(order), batch_size):
        raise IndexError(f"step {step_in_epoch} of an epoch with {steps_per_epoch(len(order), batch_size)}")
    return order[step_in_epoch * batch_size : (step_in_epoch + 1) * batch_size]


def micro_batches(samples: Samples, micro_batch: int) -> list[Samples]:
    """The step's samples in pieces of `micro_batch`, in order; the last may be short."""
    return [samples[start : start + micro_batch] for start in range(0, len(samples), micro_batch)]


def sample_rng(seed: int, epoch: int, sample: int) -> np.random.Generator:
    """The randomness of one sample in one epoch, whoever draws it.

    Philox is a keyed function of a counter: another key, or another top word of the counter, is an independent
    stream of 2**192 blocks, by construction and without hashing. That makes it cheaper per sample than a
    generator that is seeded.
    """
    key = np.array([seed, epoch], np.uint64)
    counter = np.array([0, 0, 0, sample], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))
