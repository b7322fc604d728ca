"""bfloat16 nets against the same nets in float32, above all those that MXNet's own lists break."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

from mxtrain.checkpoint import directory
from mxtrain.config import autocast_costs
from mxtrain.models import chosen_rewrites
from mxtrain.models.autocast.autocast import Autocast
from mxtrain.models.rewrites import graph_rewrites
from mxtrain.optim import precision
from mxtrain.runtime import mx
from mxtrain.train import state
from mxtrain.train.net import build_net
from tests.support.amp import ALL_NARROW, MIXED, needs_bf16
from tests.support.nets.training_steps import CLASSES, context_of_run, run_of

nn = mx.gluon.nn
ROOT = Path(__file__).resolve().parents[3]
Net = Callable[[], Any]


class Function(mx.gluon.HybridBlock):
    """A block without parameters."""

    def __init__(self, function: Callable[[Any, Any], Any]):
        super().__init__()
        self.function = function

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.function(F, x)


class Joined(mx.gluon.HybridBlock):
    """A convolution's output, which is bfloat16, with its input, which is float32."""

    def __init__(self, join: Callable[[Any, Any, Any], Any]):
        super().__init__()
        self.join = join
        with self.name_scope():
            self.convolution = nn.Conv2D(8, 3, padding=1)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.join(F, self.convolution(x), x)


class Attention(mx.gluon.HybridBlock):
    """Self-attention over the pixels, as GluonNLP writes it."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.projection = nn.Dense(3 * 16, flatten=False)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        projected = self.projection(F.transpose(F.reshape(x, (0, 0, -1)), (2, 0, 1)))
        scores = F.softmax(F.contrib.interleaved_matmul_selfatt_qk(projected, heads=2), axis=-1)
        return F.contrib.interleaved_matmul_selfatt_valatt(projected, scores, heads=2)


class Recurrent(mx.gluon.HybridBlock):
    """An LSTM over the pixels, whose first state is made of nothing."""

    def __init__(self) -> None:
        super().__init__()
        with self.name_scope():
            self.lstm = mx.gluon.rnn.LSTM(8)

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        return self.lstm(F.transpose(F.reshape(x, (0, 0, -1)), (2, 0, 1)))


def between(*blocks: Any) -> Net:
    """Blocks between two convolutions."""

    def build() -> Any:
        net = nn.HybridSequential()
        with net.name_scope():
            net.add(nn.Conv2D(8, 3, padding=1), *[block() for block in blocks], nn.Conv2D(8, 3, padding=1))
        return net

    return build


def function(of: Callable[[Any, Any], Any]) -> Net:
    return between(lambda: Function(of))


def after(build_block: Net) -> Net:
    """A convolution, and a block that ends the net."""

    def build() -> Any:
        net = nn.HybridSequential()
        with net.name_scope():
            net.add(nn.Conv2D(8, 3, padding=1), build_block())
        return net

    return build


def joined(join: Callable[[Any, Any, Any], Any]) -> Net:
    def build() -> Any:
        net = nn.HybridSequential()
        with net.name_scope():
            net.add(Joined(join), nn.Conv2D(8, 3, padding=1))
        return net

    return build


# With the lists of MXNet's own mixed precision each ends in an error, a crash or wrong gradients.
TRAPS: dict[str, Net] = {
    "zeros": function(lambda F, x: F.broadcast_add(x, F.zeros((1, 8, 1, 1)))),
    "arange": function(lambda F, x: F.broadcast_add(x, F.reshape(F.arange(8), (1, 8, 1, 1)))),
    "random": function(lambda F, x: F.broadcast_mul(x, F.random.uniform(1, 1.001, shape=(1, 8, 1, 1)))),
    "lstm": after(Recurrent),
    "deconvolution": between(lambda: nn.Conv2DTranspose(8, 3, padding=1)),
    "prelu": between(nn.PReLU),
    "prelu by channel": between(lambda: nn.PReLU(in_channels=8)),
    "softsign": between(lambda: nn.Activation("softsign")),
    "sum pooling": function(lambda F, x: F.Pooling(x, kernel=(2, 2), pool_type="sum")),
    "lp pooling": function(lambda F, x: F.Pooling(x, kernel=(2, 2), pool_type="lp", p_value=2)),
    "concat": joined(lambda F, ours, x: F.concat(ours, x, dim=1)),
    "attention": after(Attention),
    "cumsum": function(lambda F, x: F.cumsum(x, axis=1)),
}
OTHERS: dict[str, Net] = {
    "norms": between(nn.BatchNorm, lambda: nn.Activation("relu"), nn.LayerNorm, lambda: nn.GroupNorm(2)),
    "activations": between(nn.GELU, nn.Swish, nn.SELU, lambda: nn.LeakyReLU(0.1)),
    "pools": between(lambda: nn.MaxPool2D(2), lambda: nn.AvgPool2D(2)),
    "sum": joined(lambda F, ours, x: F.broadcast_add(ours, F.slice_axis(x, axis=1, begin=0, end=1))),
}
NETS = {**TRAPS, **OTHERS}


def outcome(net: Any, is_compiled: bool) -> dict[str, Any]:
    """Output and gradients of a net on fixed data, from fixed weights."""
    mx.random.seed(1)
    net.initialize(mx.init.Xavier())
    if is_compiled:
        net.hybridize(static_alloc=True, static_shape=True)
    data = mx.nd.array(np.random.default_rng(0).standard_normal((4, 3, 8, 8)))
    for _ in range(2):
        mx.random.seed(3)
        with mx.autograd.record():
            output = net(data)
            loss = (output * output).mean()
        loss.backward()
    assert output.dtype == np.float32
    named = net._collect_params_with_prefix().items()
    return {"output": output.asnumpy(), **{n: p.grad().asnumpy() for n, p in named if p.grad_req != "null"}}


def in_bfloat16(net: Any) -> dict[str, Any]:
    """Output and gradients of a net in which everything runs narrow that can."""
    times = autocast_costs.of_run("bf16", str(ALL_NARROW))
    assert times
    narrowing = Autocast(times)
    with graph_rewrites.rewriting(chosen_rewrites.rewrites(narrowing)):
        found = outcome(net, is_compiled=True)
    assert narrowing.forecast.share > 0.9
    return found


@needs_bf16
@pytest.mark.parametrize("name", NETS)
def test_bfloat16_is_float32_but_for_rounding(name: str) -> None:
    exact, narrow = outcome(NETS[name](), is_compiled=True), in_bfloat16(NETS[name]())
    errors = {
        key: float(np.linalg.norm(narrow[key] - value) / (np.linalg.norm(value) + 1e-2))
        for key, value in exact.items()
    }
    assert 0 < errors["output"] < 0.02, "rounded, and no more than that"
    assert all(error < 0.1 for error in errors.values()), errors


def test_every_operator_takes_one_type_in_float16() -> None:
    """There are no kernels on CPU, but types are settled without them: weights are float32, as in training."""
    code = (
        f"from mxtrain.runtime import mx; from mxtrain.optim import precision; from {__name__} import NETS\n"
        "with precision.casting('fp16'):\n"
        "    for name, build in NETS.items():\n"
        "        output = build()(mx.sym.var('data'))\n"
        "        types = output.infer_type(**{each: 'float32' for each in output.list_arguments()})\n"
        "        assert types[1], name\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=str(ROOT), capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("is_compiled", [False, True])
def test_the_slope_of_prelu_learns_at_full_rate(is_compiled: bool) -> None:
    """Against the difference quotient; MXNet's own is a quarter of it once compiled."""
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, padding=1), nn.PReLU(), nn.BatchNorm(), nn.HybridLambda("exp"))
    gradient = outcome(net, is_compiled)["1.alpha"]
    net.hybridize(active=False)
    data = mx.nd.array(np.random.default_rng(0).standard_normal((4, 3, 8, 8)))

    def loss(alpha: float) -> float:
        net[1].alpha.data()[:] = alpha
        with mx.autograd.train_mode():
            return float((net(data) ** 2).mean().asscalar())

    start = float(net[1].alpha.data().asscalar())
    quotient = (loss(start + 0.01) - loss(start - 0.01)) / 0.02
    assert gradient == pytest.approx(quotient, rel=0.02)


def test_a_net_of_a_float16_run_can_be_used_on_a_cpu(tmp_path: Path) -> None:
    """There it computes in float32, as its weights are, and patches nothing."""
    run = run_of(tmp_path)
    context = context_of_run(run, CLASSES)
    path = directory.write(tmp_path, state.snapshot(context, state.TrainState(1, precision.LossScale())))
    saved = directory.read_state(path)
    saved["config"]["amp"] = "fp16"
    data = mx.nd.array(np.random.default_rng(0).standard_normal((2, 3, 16, 16)))
    net = build_net.load_trained(directory.Checkpoint(path, saved), [mx.cpu()])
    np.testing.assert_array_equal(net(data).asnumpy(), context.net(data).asnumpy())
    assert [precision.usable_amp(each, "cpu") for each in ("off", "bf16", "fp16")] == ["off", MIXED, "off"]
    assert [precision.usable_amp(each, "gpu") for each in ("off", "bf16", "fp16")] == ["off", "off", "fp16"]
