"""A net whose head is in chunks trains and is judged as with a whole one, and its arrays become that one's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.core.errors import UsageError
from mxtrain.models.heads import chunked_head, ranks
from mxtrain.models.heads.chunked_head import Chunk, Samples
from mxtrain.models.heads.class_chunks import head_of
from mxtrain.models.heads.margins import Margin, of_loss
from mxtrain.models.parameters import head_arrays, weights
from mxtrain.runtime import mx
from mxtrain.tasks.metrics.metrics import Accuracy, ranks_of_classes
from mxtrain.train.context import TrainContext
from tests.support.breadth import slow_cases
from tests.support.nets.training_steps import QUICK_NET, SIZE, batches, context_of_run, train

CLASSES = 13
LOSSES = ["cross_entropy", "arcface:scale=8,margin=0.3", "cosface:scale=8,margin=0.2"]


def dense_net(num_classes: int) -> Any:
    """A net whose last layer learns from the graph how many features it takes, in a row before a Flatten of its own."""
    net = mx.gluon.nn.HybridSequential()
    with net.name_scope():
        net.add(
            mx.gluon.nn.Conv2D(4, 3, strides=4),
            mx.gluon.nn.Activation("relu"),
            mx.gluon.nn.Dense(num_classes),
        )
    return net


def context_of(flags: str, model: str = QUICK_NET) -> TrainContext:
    line = f"--train t.rec --image-size {SIZE} --model {model} --batch-size 16 --micro-batch 4 {flags}"
    return context_of_run(config.parse(line.split()), CLASSES)


def same_weights(context: TrainContext, other: TrainContext) -> None:
    """Give a net the weights of another, however the heads of both are cut."""
    theirs = {name: each.data() for name, each in weights.named_parameters(other.net).items()}
    ours = weights.named_parameters(context.net)
    fitted = head_arrays.fitted(theirs, {name: each.shape for name, each in ours.items()})
    assert fitted.keys() == ours.keys()
    for name, parameter in ours.items():
        weights.put(parameter, fitted[name])


def whole_arrays(context: TrainContext, other: TrainContext) -> dict[str, Any]:
    """Return the arrays of a net as another has them."""
    arrays = {name: each.data() for name, each in weights.named_parameters(context.net).items()}
    shapes = {name: each.shape for name, each in weights.named_parameters(other.net).items()}
    return {name: array.asnumpy() for name, array in head_arrays.fitted(arrays, shapes).items()}


@pytest.mark.parametrize(
    ("flags", "model"),
    [
        *slow_cases(*((f"--loss {loss}", QUICK_NET) for loss in LOSSES)),
        ("--optimizer adamw --class-weights 1,2,1,0.5,1,1,1,1,1,1,1,1,3 --remat", QUICK_NET),
        ("--loss cross_entropy --clip-norm 0.1", f"{__name__}:dense_net"),
    ],
)
def test_a_net_trains_as_with_a_whole_head(flags: str, model: str) -> None:
    """Of 13 classes in chunks of 5, 5 and 3, or of one; judged alike, on two devices to the same bits."""
    flags += " --optimizer adamw" if "--optimizer" not in flags else ""
    whole = context_of(flags, model)
    one, two, single = (
        context_of(f"{flags} --head-chunk {rows} --devices {devices}", model)
        for rows, devices in ((5, "cpu"), (5, "cpu:0,1"), (CLASSES, "cpu"))
    )
    for context in (two, single, whole):
        same_weights(context, one)
    curves = [train(context, 4) for context in (one, two, single, whole)]
    assert curves[0] == curves[1]
    np.testing.assert_allclose(curves[0], curves[2], rtol=1e-5)
    np.testing.assert_allclose(curves[0], curves[3], rtol=1e-5)
    expected = whole_arrays(whole, whole)
    for context in (one, single):
        for name, array in whole_arrays(context, whole).items():
            # Adam's first steps go by the signs of gradients, some of which are next to nothing.
            assert np.mean(np.abs(array - expected[name])) < 1e-3, name
    same_weights(whole, one)
    (batch,) = batches(16, 16, seed=5)
    arrays = {name: mx.nd.array(array) for name, array in batch.arrays.items()}
    ours, theirs = (context.plain_forward(context.net, arrays) for context in (one, whole))
    np.testing.assert_allclose(ours.losses.asnumpy(), theirs.losses.asnumpy(), rtol=1e-4, atol=1e-5)
    judged, right = one.task.metrics()[0], Accuracy()
    assert (judged.state(ours.output, batch.arrays) == right.state(theirs.output, batch.arrays)).all()
    for row in range(3):
        of_sample = {name: array[row] for name, array in batch.arrays.items()}
        results = [
            context.task.sample_result(each.output.asnumpy()[row], of_sample)
            for context, each in ((one, ours), (whole, theirs))
        ]
        assert results[0] == pytest.approx(results[1], rel=1e-3)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_sample_of_the_classes(loss: str) -> None:
    """Of 13 classes 6 a step: the loss is the softmax over these, and no other class has a gradient."""
    context = context_of(f"--loss {loss} --head-chunk 5 --head-classes 6 --seed 3")
    (batch,) = batches(4, 4, seed=5)
    arrays = context.task.prepare(batch.arrays, 7, 0)
    classes = arrays["head_classes"]
    assert len(classes) == 6 and set(batch.arrays["label"]) <= set(classes)
    assert not np.array_equal(classes, context.task.prepare(batch.arrays, 8, 0)["head_classes"])
    head = head_of(context.net)
    in_mxnet = {name: mx.nd.array(each, dtype=each.dtype) for name, each in arrays.items()}
    with mx.autograd.record():
        outcome = context.forward(context.net, in_mxnet)
    outcome.losses.backward()
    of_rows = np.concatenate([np.abs(chunk.weight.grad().asnumpy()).sum(axis=1) for chunk in head.chunks])
    assert (np.flatnonzero(of_rows) == classes).all()
    assert outcome.losses.asnumpy().max() > 0
    everything = context_of(f"--loss {loss} --head-chunk 5 --head-classes 13")
    assert "head_classes" not in everything.task.prepare(batch.arrays, 7, 0)


def test_a_frozen_chunk_stays_as_it_is() -> None:
    context = context_of("--head-chunk 5 --freeze *.1.weight")
    before = [chunk.weight.data().asnumpy() for chunk in head_of(context.net).chunks]
    train(context, 1)
    moved = [
        (chunk.weight.data().asnumpy() != old).any()
        for chunk, old in zip(head_of(context.net).chunks, before)
    ]
    assert moved == [True, False, True]


def test_a_net_that_does_not_end_in_a_dense_layer() -> None:
    with pytest.raises(
        UsageError, match=r"--model squeezenet1\.0: --head-chunk needs a net that ends in a Dense"
    ):
        context_of("--head-chunk 5", "squeezenet1.0")


@pytest.mark.parametrize("margin", [None, *map(of_loss, LOSSES[1:])])
def test_ranks_are_those_of_all_classes(margin: Margin | None) -> None:
    """With equal logits too, of which the first is before."""
    rng, lengths, width = np.random.default_rng(1), [3000, 1, 2500], 8
    matrix = rng.integers(-2, 3, (sum(lengths), width)).astype(np.float32)
    matrix[100] = matrix[2900]
    biases = None if margin else rng.integers(-1, 2, sum(lengths)).astype(np.float32)
    features = rng.integers(-2, 3, (40, width)).astype(np.float32) + 0.5
    samples = Samples(features, rng.integers(0, sum(lengths), 40))
    ends = np.cumsum([0, *lengths])

    def pull(chunk: int) -> Chunk:
        rows = slice(ends[chunk], ends[chunk + 1])
        return Chunk(matrix[rows], None if biases is None else biases[rows])

    margin = margin and margin.without()
    (forward,) = chunked_head.softmax([samples], lengths, pull, margin)
    found = ranks.ranks(samples, forward, lengths, pull, margin)
    units = chunked_head.units_of(features, margin)[0]
    blocks = [pull(chunk).rows(rows) for chunk in range(3) for rows in chunked_head.blocks(lengths[chunk])]
    logits = np.concatenate(
        [
            chunked_head.logits_of(units, each, chunked_head.squared_lengths(each, margin), margin)
            for each in blocks
        ],
        axis=1,
    )
    np.testing.assert_array_equal(found.own, ranks_of_classes(logits, samples.labels))
    np.testing.assert_array_equal(found.likeliest, logits.argmax(axis=1))
    shares = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(found.probabilities, 1 / shares.sum(axis=1), rtol=1e-5)
