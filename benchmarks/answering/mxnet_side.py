"""mxtrain's process, and ONNX Runtime's with mxtrain's export: `mxnet_side.py NET BATCH KIND WEIGHTS.npz`.

Answers are those of a batch in memory. The kinds are "mxtrain", which answers as `evaluate` and `predict` do and writes
the weights for the others, "in training", as an evaluation does there once it has begun, "begun", an evaluation of a
batch from its beginning, and "onnxruntime".
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Callable

import numpy as np

from benchmarks.step import mxnet_side, turns
from benchmarks.step.nets import FOR_TESTS, NETS, batch


def main() -> None:
    name, batch_size, kind, path = sys.argv[1:]
    net = {**NETS, **FOR_TESTS}[name]._replace(batch_size=int(batch_size))
    from mxtrain.train.net import build_net

    with build_net.compiling("off"):
        context = mxnet_side.context_of(net, "off")
        turns.take_turns(KINDS[kind](context.net, batch(net)[0], Path(path)), 0)


def own_answers(net: Any, data: Any, path: Path) -> Callable[[], float]:
    """Return a function that answers a batch, and says the mean size of its answers; writes the weights."""
    from mxtrain.models import answers
    from mxtrain.models.parameters import weights
    from mxtrain.runtime import memory, mx

    np.savez(path, **weights.copy_of(net))
    assert answers.answer_by(net)
    arrays = mx.nd.array(data)
    return lambda: float(np.abs(memory.numbers(net(arrays))).mean())


def answers_in_training(net: Any, data: Any, path: Path) -> Callable[[], float]:
    """Return such a function that computes within an evaluation of a net in training, by the weights at `path`."""
    from mxtrain.models import answers
    from mxtrain.runtime import memory, mx

    _load(net, path)
    arrays = mx.nd.array(data)
    assert answers.answer_by(net)
    return lambda: float(np.abs(memory.numbers(net(arrays))).mean())


def evaluations_in_training(net: Any, data: Any, path: Path) -> Callable[[], float]:
    """Return such a function that begins an evaluation with each batch: weights are folded, and memory is found."""
    from mxtrain.models import answers
    from mxtrain.runtime import memory, mx

    _load(net, path)
    arrays = mx.nd.array(data)

    def evaluate() -> float:
        with answers.standing_still(net):
            return float(np.abs(memory.numbers(net(arrays))).mean())

    return evaluate


def answers_of_onnx(net: Any, data: Any, path: Path) -> Callable[[], float]:
    """Return such a function of ONNX Runtime's, by the weights at `path`."""
    import onnxruntime

    from mxtrain.core.system import machine
    from mxtrain.export import inference_graph
    from mxtrain.export.onnx import onnx_graph

    _load(net, path)
    model = onnx_graph.convert(inference_graph.of_inputs(net, "the net", {"data": data.shape[1:]}), len(data))
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = machine.usable_cores()
    session = onnxruntime.InferenceSession(model.SerializeToString(), settings, ["CPUExecutionProvider"])
    (entry,) = session.get_inputs()
    arrays = np.ascontiguousarray(data, dtype=np.float32)
    return lambda: float(np.abs(session.run(None, {entry.name: arrays})[0]).mean())


def _load(net: Any, path: Path) -> None:
    from mxtrain.models.parameters import weights
    from mxtrain.runtime import mx

    named = weights.named_parameters(net)
    for name, array in np.load(path).items():
        named[name].set_data(mx.nd.array(array))


KINDS = {
    "mxtrain": own_answers,
    "in training": answers_in_training,
    "begun": evaluations_in_training,
    "onnxruntime": answers_of_onnx,
}

if __name__ == "__main__":
    main()
