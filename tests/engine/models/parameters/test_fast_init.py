"""First weights drawn by the part in C are MXNet's own, to the bit."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

from mxtrain import native
from mxtrain.models.contract import of_pictures
from mxtrain.models.nets import zoo
from mxtrain.models.parameters import fast_init, initializers
from mxtrain.runtime import mx

CPU = [mx.cpu()]
needs_part_in_c = pytest.mark.skipif(
    native.draw_normal is None, reason="mxtrain's part in C is not built here"
)


@needs_part_in_c
@pytest.mark.parametrize("seed", [0, 7, 2**31 - 1])
def test_streams_are_mxnets(seed: int) -> None:
    mx.random.seed(seed)
    streams = native.random_streams(seed * fast_init.SEED_FACTOR % 2**32)  # type: ignore[misc]
    # Odd counts of uniform numbers leave a normal one with words of two renewals of a stream.
    for count in (1, 63, 65, 5_000, 65_537, 200_001, 1_300_000):
        found = np.empty(count, np.float32)
        native.draw_uniform(streams, -0.25, 1.5, found)  # type: ignore[misc]
        np.testing.assert_array_equal(found, mx.nd.random.uniform(-0.25, 1.5, shape=(count,)).asnumpy())
        native.draw_normal(streams, 0.5, 0.125, found)  # type: ignore[misc]
        np.testing.assert_array_equal(found, mx.nd.random.normal(0.5, 0.125, shape=(count,)).asnumpy())


@needs_part_in_c
@pytest.mark.parametrize("streams, out", [(bytearray(8), np.zeros(4, np.float32)), (None, bytearray(3))])
def test_what_is_no_stream_or_no_numbers_is_refused(streams: Any, out: Any) -> None:
    with pytest.raises(ValueError, match="expected"):
        native.draw_normal(native.random_streams(0) if streams is None else streams, 0, 1, out)  # type: ignore[misc]


class Noisy(mx.init.Initializer):  # type: ignore[misc]
    """A user's initialiser, which draws what only MXNet can."""

    def _init_weight(self, name: str, array: Any) -> None:
        array[:] = mx.nd.random.poisson(3, shape=array.shape)


def dense(initializer: Any) -> Callable[[], Any]:
    def build() -> Any:
        net = mx.gluon.nn.HybridSequential()
        net.add(mx.gluon.nn.Conv2D(8, 3), mx.gluon.nn.Dense(5, weight_initializer=initializer))
        return net

    return build


NETS = {
    "small_resnet": lambda: zoo.build("small_resnet", 5),
    "a layer's own": dense(mx.init.Uniform(0.07)),
    "a user's own": dense(Noisy()),
}


def weights(build: Callable[[], Any], text: str, calls: list[str]) -> dict[str, np.ndarray]:
    net = build()
    with fast_init.in_less_time(net, text, 11):
        if mx.initializer.random is not mx.random:
            calls.append(text)
        initializers.initialize(net, text, CPU, 11)
        zoo.compile(net, "net", CPU, of_pictures(32, 5))
    assert mx.initializer.random is mx.random
    return {name: each.data().asnumpy() for name, each in net._collect_params_with_prefix().items()}


@needs_part_in_c
@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize(
    "text",
    [
        "msra",
        "msra_out:slope=0.3",
        "xavier",
        "xavier_normal:magnitude=2.7",
        "normal:sigma=0.0123",
        "uniform:scale=0.3",
        "orthogonal",
        "mxnet.initializer:MSRAPrelu",
    ],
)
def test_first_weights_are_mxnets(net: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    found = weights(NETS[net], text, calls)
    assert bool(calls) == (not text.startswith(("orthogonal", "mxnet")) and net != "a user's own")
    monkeypatch.setattr(native, "draw_normal", None)
    expected = weights(NETS[net], text, calls)
    assert len(calls) <= 1 and expected.keys() == found.keys()
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)
