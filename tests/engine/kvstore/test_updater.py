"""Updates by kernels of our own: the bits of MXNet's operators, for whatever numbers there are."""

from __future__ import annotations

import ctypes
from typing import Any, Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mxtrain import native
from mxtrain.config import Optim
from mxtrain.kvstore import updater
from mxtrain.optim import optimizers
from mxtrain.optim.optimizer_state import state_arrays
from mxtrain.runtime import mx

NAMES = ("sgd", "sgd:momentum=0", "adam", "adamw")
SEVERAL_PARTS = 100_003  # numbers, of which threads have a part each, the last one an odd one
needs_kernels = pytest.mark.skipif(
    native.OPERATORS is None, reason="mxtrain was installed without a C compiler"
)
UNLIKELY = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-40, 3e38, -3e38, 1e-30, 1.8e19]


def numbers(seed: int, size: int, has_unlikely: bool) -> np.ndarray[Any, Any]:
    """Return float32 numbers of all magnitudes."""
    random = np.random.default_rng([seed, size])
    found = (random.normal(size=size) * 10.0 ** random.integers(-12, 6, size)).astype(np.float32)
    if has_unlikely:
        found[random.random(size) < 0.2] = random.choice(np.array(UNLIKELY, np.float32))
    return found


def moved(
    make: Any, optimizer: Any, sizes: Sequence[int], has_unlikely: bool, num_steps: int = 3
) -> list[np.ndarray[Any, Any]]:
    """Return the weights and states that an updater, which `make` makes, comes to."""
    weights = [mx.nd.array(numbers(place, size, has_unlikely)) for place, size in enumerate(sizes)]
    update = make(optimizer)
    for step in range(num_steps):
        optimizer.set_learning_rate(optimizer.lr * 0.9)
        gradients = [
            mx.nd.array(numbers(100 * (step + 1) + place, size, has_unlikely))
            for place, size in enumerate(sizes)
        ]
        update(list(range(len(sizes))), gradients, weights)
    states = [array for place in range(len(sizes)) for array in state_arrays(update.states[place])]
    return [array.asnumpy() for array in [*weights, *states]]


def assert_same_bits(found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Assert that bits are equal; a number that is none may be any."""
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected):
        is_nan = np.isnan(other)
        assert (np.isnan(one) == is_nan).all()
        assert (one.view(np.uint32)[~is_nan] == other.view(np.uint32)[~is_nan]).all()


rates = st.one_of(st.sampled_from([0.1, 1e-3, 1.0, 0.0, 1e-30]), st.floats(1e-9, 10.0))


@needs_kernels
@settings(deadline=None, max_examples=60)
@given(
    name=st.sampled_from(NAMES),
    sizes=st.lists(st.integers(1, 70), min_size=1, max_size=6),
    rate=rates,
    decay=st.one_of(st.just(0.0), rates),
    rescale=st.one_of(st.sampled_from([1 / 3, 1.0, 1 / 1024]), st.floats(1e-6, 100.0)),
    clip=st.one_of(st.none(), st.floats(1e-6, 100.0)),
    share=st.one_of(st.just(0.9), st.floats(1e-6, 0.9999)),
    has_unlikely=st.booleans(),
)
def test_updates_have_the_bits_of_mxnets(
    name: str,
    sizes: list[int],
    rate: float,
    decay: float,
    rescale: float,
    clip: float | None,
    share: float,
    has_unlikely: bool,
) -> None:
    def built() -> Any:
        optimizer = optimizers.build(Optim(optimizer=name, lr=rate, weight_decay=decay))
        if "momentum" in vars(optimizer) and name == "sgd":
            optimizer.momentum = share
        optimizer.rescale_grad, optimizer.clip_gradient = rescale, clip
        optimizer.lr_mult, optimizer.wd_mult = {0: 0.3}, {1: 0.0}
        return optimizer

    expected = moved(mx.optimizer.get_updater, built(), sizes, has_unlikely)
    assert_same_bits(moved(updater.Updater, built(), sizes, has_unlikely), expected)


@pytest.fixture
def set_threads() -> Iterator[Any]:
    set_threads = ctypes.CDLL(native.OPERATORS).mxtrain_set_threads
    before = set_threads(1)
    yield set_threads
    set_threads(before)


@needs_kernels
@pytest.mark.parametrize("name", NAMES)
def test_threads_change_no_bit(set_threads: Any, name: str) -> None:
    def built() -> Any:
        return optimizers.build(Optim(optimizer=name, lr=0.1, weight_decay=0.01))

    sizes = [SEVERAL_PARTS, 3, 16 * 8192]
    expected = moved(mx.optimizer.get_updater, built(), sizes, False)
    for num_threads in (1, 2, 3, 7):
        set_threads(num_threads)
        assert_same_bits(moved(updater.Updater, built(), sizes, False), expected)


@needs_kernels
def test_kernels_are_what_moves_these(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else all of the above compares MXNet's operators with themselves."""
    for name in NAMES:
        optimizer = optimizers.build(Optim(optimizer=name))
        monkeypatch.setattr(type(optimizer), "update", None)
        monkeypatch.setattr(type(optimizer), "update_multi_precision", None)
        moved(updater.Updater, optimizer, [5], False)
        monkeypatch.undo()


@needs_kernels
def test_an_update_comes_after_all_that_was_asked_for_with_its_arrays_and_before_all_else() -> None:
    optimizer = mx.optimizer.SGD(learning_rate=1.0)
    update, weight = updater.Updater(optimizer), mx.nd.zeros((1000, 1000))
    total, gradient = 0.0, mx.nd.ones((1000, 1000))
    for _ in range(20):
        gradient *= 1.01
        gradient += 1.0
        update(0, gradient, weight)
        read = weight * 1.0
        gradient += 1.0
        total = float(read[0, 0].asscalar())
    expected, slope = np.float32(0), np.float32(1)
    for _ in range(20):
        slope = np.float32(slope * np.float32(1.01)) + np.float32(1)
        expected, slope = expected - slope, slope + np.float32(1)
    assert total == expected


def test_others_are_mxnets(monkeypatch: pytest.MonkeyPatch) -> None:
    def built() -> Any:
        return mx.optimizer.SGD(learning_rate=0.1, momentum=0.9)

    expected = moved(mx.optimizer.get_updater, built(), [7, 8], False)
    with monkeypatch.context() as patch:
        patch.setattr(native, "OPERATORS", None)
        assert_same_bits(moved(updater.Updater, built(), [7, 8], False), expected)

    update, weight = updater.Updater(mx.optimizer.SGD(learning_rate=1.0)), mx.nd.ones((3, 2))
    gradient = mx.nd.sparse.row_sparse_array((np.ones((1, 2), np.float32), [1]), shape=(3, 2))
    update(0, gradient, weight.tostype("default"))
    update([0, 1], [gradient, mx.nd.ones((2,))], [weight, mx.nd.ones((2,))])
    assert weight.asnumpy().tolist() == [[1, 1], [0, 0], [1, 1]]

    half = mx.nd.ones((2,), dtype="float16")
    updater.Updater(mx.optimizer.SGD(learning_rate=1.0))(0, half, half)
    assert half.dtype == np.float16 and half.asnumpy().tolist() == [0, 0]
    with pytest.raises(mx.MXNetError):
        updater.Updater(mx.optimizer.SGD())(0, mx.nd.ones((3,)), mx.nd.ones((4,)))


def test_no_weights_are_none() -> None:
    updater.Updater(mx.optimizer.SGD())([], [], [])


@needs_kernels
def test_numbers_are_those_that_operators_read() -> None:
    random = np.random.default_rng(0)
    drawn = (random.random(200) * 10.0 ** random.integers(-9, 4, 200)).tolist()
    alone = [updater.read_alone(number) for number in drawn]
    assert alone != pytest.approx(drawn, rel=0, abs=0) and alone == pytest.approx(drawn, rel=1e-6)
    assert [updater.read_in_list(number) for number in drawn] == np.float32(drawn).tolist()
    assert [updater.read_alone(0.0), updater.read_in_list(0.0), updater.read_as_factor(0.0)] == [0, 0, 0]
    assert not np.signbit([updater.read_alone(0.0), updater.read_in_list(0.0)]).any()
