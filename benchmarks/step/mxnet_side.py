"""mxtrain's process: `mxnet_side.py NET AMP WEIGHTS.npz`, or `mxnet_side.py peak AMP`.

The steps are those of `fit` (`train_step`), on one batch in memory.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any, Callable

import numpy as np

from benchmarks.harness import training
from benchmarks.step import clicks_side, multiplications, turns
from benchmarks.step.nets import CLASSES, FOR_TESTS, NETS, Net, batch
from mxtrain.config import Run


def main() -> None:
    name, amp, *path = sys.argv[1:]
    if name == "peak":
        turns.print_peak(*large_kernels(amp))
        return
    net = {**NETS, **FOR_TESTS}[name]
    from mxtrain.train.net import build_net

    with build_net.compiling(amp):
        _take_turns(net, context_of(net, amp), path[0])


def _take_turns(net: Net, context: Any, path: str) -> None:
    """Write the weights that training begins with, and make steps when it is this side's turn."""
    from mxtrain.models.parameters import weights

    if net.ids:
        arrays = clicks_side.first_weights(net, context)
        np.savez(path, **arrays)
        count = clicks_side.multiplications(net, arrays)
        turns.take_turns(steps_of(net, context), sum(each.size for each in arrays.values()), count)
        return
    trained = [p for p in weights.named_parameters(context.net).values() if p.grad_req != "null"]
    np.savez(path, **weights.copy_of(context.net))
    num_parameters = sum(int(np.prod(parameter.shape)) for parameter in trained)
    count = multiplications.of_net(context.net, batch(net)[0])
    turns.take_turns(steps_of(net, context), num_parameters, count)


def context_of(net: Net, amp: str, amp_table: str = "") -> Any:
    """Return a run's context as `fit` builds it."""
    if net.ids:
        return clicks_side.context_of(net)
    if net.vocabulary:
        return _context_of_tokens(net, amp, amp_table)
    return training.context_of(_run(net, amp, amp_table, net.model, net.size), CLASSES)


def _run(net: Net, amp: str, amp_table: str, model: str, image_size: int) -> Run:
    size = ("--batch-size", net.samples, "--micro-batch", net.samples, "--image-size", image_size)
    learning = ("--model", model, "--optimizer", net.optimizer, "--lr", net.rate)
    return training.run_of(*learning, *size, "--amp", amp, "--amp-table", amp_table)


def _context_of_tokens(net: Net, amp: str, amp_table: str) -> Any:
    """Return the context of a run on pictures with a net of tokens, compiled as that run's was, in the net's place."""
    from mxtrain.kvstore.trainers.trainer import open_trainer
    from mxtrain.models.autocast.autocast import Forecast
    from mxtrain.models.nets import zoo
    from mxtrain.models.parameters import weights
    from mxtrain.optim import optimizers, precision
    from mxtrain.optim.weight_decay import exempt_from_decay
    from mxtrain.runtime import mx
    from mxtrain.train.net.build_net import BuiltNet

    run = _run(net, amp, amp_table, "small_cnn", 32)
    context = training.context_of(run, num_classes=10)
    from benchmarks.step import mxnet_nets

    of_tokens = mxnet_nets.of_tokens(net)
    mx.random.seed(run.optim.seed)
    of_tokens.initialize(mx.init.Normal(0.02))
    of_tokens(mx.nd.zeros((1, net.size))).wait_to_read()
    narrowing = precision.autocast_of(run.model, "cpu")
    with zoo.rewriting(narrowing):
        zoo.compile_graph(of_tokens, [(net.batch_size, net.size)], mx.cpu())
    trained = list(weights.named_parameters(of_tokens).values())
    exempt_from_decay(trained)
    optimizer = optimizers.build(run.optim)
    return dataclasses.replace(
        context,
        built=BuiltNet(of_tokens, narrowing.forecast if narrowing else Forecast(), {}),
        optimizer=optimizer,
        trainer=open_trainer(trained, optimizer, run.layout.kvstore),
    )


def steps_of(net: Net, context: Any) -> Callable[[], float]:
    """Return a function that makes one more step and returns its loss."""
    batches = clicks_side.batches_of(net) if net.ids else training.batches_of(*batch(net))
    made = training.Training(context, batches, net.rate)

    def make_step() -> float:
        outcome = made.step()
        assert outcome.applied and outcome.num_samples == net.samples
        return outcome.loss

    return make_step


def large_kernels(amp: str) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return a product of large matrices and a large convolution."""
    from mxtrain.runtime import amp as mxnet_amp
    from mxtrain.runtime import mx

    def typed(*shape: int) -> Any:
        return mx.nd.random.normal(shape=shape).astype("float32" if amp == "off" else mxnet_amp.amp.bfloat16)

    left, right = typed(turns.MATRIX, turns.MATRIX), typed(turns.MATRIX, turns.MATRIX)
    images = typed(turns.IMAGES, turns.CHANNELS, turns.SIDE, turns.SIDE)
    kernels = typed(turns.CHANNELS, turns.CHANNELS, 3, 3)
    dense = {"num_hidden": turns.MATRIX, "no_bias": True}
    convolution = {"num_filter": turns.CHANNELS, "kernel": (3, 3), "pad": (1, 1), "no_bias": True}
    return (
        lambda: mx.nd.FullyConnected(left, right, **dense).wait_to_read(),
        lambda: mx.nd.Convolution(images, kernels, **convolution).wait_to_read(),
    )


if __name__ == "__main__":
    main()
