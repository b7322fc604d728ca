"""What nets of ids compute, beside the formulas of their papers in NumPy."""

from __future__ import annotations

import itertools
from typing import Any, Mapping

import numpy as np
import pytest

from mxtrain.models.nets import recommender_nets
from mxtrain.models.nets.recommender_nets import IDS, LENGTHS, NUMBERS
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block

INPUTS = {
    "ids": {IDS: (5,)},
    "one field": {IDS: (1,)},
    "numbers": {NUMBERS: (3,), IDS: (5,)},
    "all": {NUMBERS: (3,), IDS: (4,), "tags": (6,), "tags" + LENGTHS: ()},
    "lists": {"tags": (6,), "tags" + LENGTHS: (), "seen": (2,), "seen" + LENGTHS: ()},
}
SAMPLES, WIDTH = 7, 4
TABLE = {"optimizer": "sgd", "scale": 0.5}
HIDDEN = {"hidden": (8, 6), "dropout": 0.0}


def batch(inputs: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    arrays: dict[str, Any] = {}
    for name, shape in inputs.items():
        if name == NUMBERS:
            arrays[name] = rng.standard_normal((SAMPLES, *shape)).astype(np.float32)
        elif name.endswith(LENGTHS):
            arrays[name] = rng.integers(0, inputs[name[: -len(LENGTHS)]][0] + 1, SAMPLES)
        else:
            arrays[name] = rng.integers(0, 9, (SAMPLES, *shape))
    return arrays


def fields(net: Block, arrays: Mapping[str, Any]) -> Any:
    """Return the rows of all fields in NumPy: (samples, fields, outputs and width)."""
    found = []
    if IDS in arrays:
        found = list(net.rows.rows(arrays[IDS].T.reshape(-1)).reshape(arrays[IDS].shape[1], SAMPLES, -1))
    for name in (each for each in arrays if each + LENGTHS in arrays):
        means = np.zeros((SAMPLES, net.rows.options.width), np.float32)
        for sample, (ids, length) in enumerate(zip(arrays[name], arrays[name + LENGTHS])):
            if length:
                means[sample] = net.rows.rows(ids[:length]).mean(axis=0)
        found.append(means)
    return np.stack(found, axis=1).astype(np.float64)


def layers(block: Block, data: Any) -> Any:
    return block(mx.nd.array(data)).asnumpy().astype(np.float64)


def deep(net: Block, rows: Any, numbers: Any, outputs: int) -> Any:
    weights, vectors = rows[:, :, :outputs].sum(axis=1), rows[:, :, outputs:].reshape(SAMPLES, -1)
    if numbers is None:
        return weights + layers(net.head.deep, vectors)
    return weights + layers(net.head.wide, numbers) + layers(net.head.deep, np.hstack([vectors, numbers]))


def deepfm(net: Block, rows: Any, numbers: Any, outputs: int) -> Any:
    vectors = list(rows[:, :, outputs:].transpose(1, 0, 2))
    if numbers is not None:
        of_numbers = net.head.of_numbers.data().asnumpy()[0]
        vectors += [numbers[:, [n]] * of_numbers[n] for n in range(numbers.shape[1])]
    pairs = sum((one * other).sum(axis=1) for one, other in itertools.combinations(vectors, 2))
    return deep(net, rows, numbers, outputs) + np.reshape(pairs, (-1, 1)) * np.ones((SAMPLES, 1))


def dlrm(net: Block, rows: Any, numbers: Any, outputs: int) -> Any:
    vectors, parts = list(rows[:, :, outputs:].transpose(1, 0, 2)), []
    if numbers is not None:
        parts = [layers(net.head.bottom, numbers)]
        vectors = [*parts, *vectors]
    for row in range(1, len(vectors)):
        parts += [(vectors[row] * vectors[other]).sum(axis=1, keepdims=True) for other in range(row)]
    weights = rows[:, :, :outputs].sum(axis=1)
    if not parts:
        return weights
    taken = np.hstack(parts)
    return weights + layers(net.head.top, taken) + layers(net.head.direct, taken)


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("inputs", INPUTS)
@pytest.mark.parametrize(
    ("name", "formula", "options"),
    [("wide_deep", deep, {}), ("deepfm", deepfm, {}), ("dlrm", dlrm, {"bottom": (5,)})],
)
def test_nets_compute_what_their_papers_say(
    name: str, formula: Any, options: dict[str, Any], inputs: str, outputs: int
) -> None:
    mx.random.seed(3)
    net = getattr(recommender_nets, name)(INPUTS[inputs], outputs, width=WIDTH, **TABLE, **HIDDEN, **options)
    net.initialize(mx.init.Uniform(0.5))
    arrays = batch(INPUTS[inputs])
    answered = net(*(mx.nd.array(arrays[each], dtype=arrays[each].dtype) for each in INPUTS[inputs]))
    expected = formula(net, fields(net, arrays), arrays.get(NUMBERS), outputs)
    assert answered.shape == (SAMPLES, outputs)
    assert np.abs(answered.asnumpy() - expected).max() < 1e-5


@pytest.mark.parametrize("name", ["wide_deep", "deepfm", "dlrm"])
def test_gradients_of_rows_are_those_of_differences(name: str) -> None:
    options = {"bottom": (5,)} if name == "dlrm" else {}
    mx.random.seed(0)
    net = getattr(recommender_nets, name)(INPUTS["all"], 2, width=WIDTH, **TABLE, **HIDDEN, **options)
    net.initialize(mx.init.Uniform(0.5))
    rng = np.random.default_rng(2)
    rows = rng.standard_normal((SAMPLES, 5, 2 + WIDTH)).astype(np.float32)
    numbers = mx.nd.array(rng.standard_normal((SAMPLES, 3)))
    leaf = mx.nd.array(rows)
    leaf.attach_grad()
    head = net.head_of_rows()
    with mx.autograd.record():
        head(leaf, numbers).sum().backward()
    for _ in range(12):
        direction = rng.standard_normal(rows.shape).astype(np.float32)
        ends = [
            head(mx.nd.array(rows + side * 1e-2 * direction), numbers).sum().asscalar() for side in (1, -1)
        ]
        slope = (ends[0] - ends[1]) / 2e-2
        assert slope == pytest.approx(float((leaf.grad.asnumpy() * direction).sum()), rel=2e-2, abs=0.1)


@pytest.mark.parametrize("inputs", ["ids", "one field", "numbers"])
@pytest.mark.parametrize("name", ["wide_deep", "deepfm", "dlrm"])
def test_looked_up_in_one_pass_or_by_operators_all_is_the_same(name: str, inputs: str) -> None:
    options = {"bottom": (5,)} if name == "dlrm" else {}
    mx.random.seed(0)
    net = getattr(recommender_nets, name)(INPUTS[inputs], 2, width=WIDTH, **TABLE, **HIDDEN, **options)
    net.initialize(mx.init.Uniform(0.5))
    arrays = [mx.nd.array(each, dtype=each.dtype) for each in batch(INPUTS[inputs]).values()]
    taken = net.head_inputs(*arrays)
    rows = taken["rows"]
    rows.attach_grad()
    with mx.autograd.record():
        by_operators = net.head_of_rows()(*taken.values())
        (by_operators**2).backward()
    with mx.autograd.record():
        answer = net(*arrays)
        (answer**2).backward()
    np.testing.assert_allclose(answer.asnumpy(), by_operators.asnumpy(), rtol=1e-5, atol=1e-6)
    (use,) = net.rows.take_uses(mx.cpu())
    expected = np.zeros((len(use.ids), 2 + WIDTH))
    np.add.at(expected, use.positions, rows.grad.asnumpy().reshape(-1, 2 + WIDTH))
    np.testing.assert_allclose(use.gradients(), expected, rtol=1e-4, atol=1e-5)
