"""TensorFlow's side: the same DeepFM over its ParameterServerStrategy, which is asynchronous.

    python -m benchmarks.tables.tensorflow_side JOB.json ROLE NUMBER

ROLE is `ps`, `worker`, or `chief`, which ends when all steps are done and prints a line of JSON: seconds of each
stretch of steps, and its mean loss. Rows lie on the parameter servers and move by sparse Adagrad there, all else by
Adam.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

from benchmarks.tables import clicks

WIDTH, HIDDEN, SCALE = 16, (256, 128), 0.01
STRETCHES = 6  # of which the first does not count


def main() -> None:
    job, role, number = (
        json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")),
        sys.argv[2],
        int(sys.argv[3]),
    )
    tf.config.threading.set_intra_op_parallelism_threads(job["threads"])
    cluster = {name: [f"127.0.0.1:{port}" for port in ports] for name, ports in job["ports"].items()}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": cluster, "task": {"type": role, "index": number}})
    resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
    if role != "chief":
        server = tf.distribute.Server(
            resolver.cluster_spec(), job_name=role, task_index=number, protocol="grpc", start=True
        )
        server.join()
    print(json.dumps(_train(job, tf.distribute.ParameterServerStrategy(resolver))))


class Net:
    """Weights, and what Adam and Adagrad remember of them."""

    def __init__(self, num_ids: int, num_shards: int):
        start = tf.random.Generator.from_seed(0)

        def uniform(*shape: int, scale: float) -> Any:
            return tf.Variable(start.uniform(shape, -scale, scale))

        rows = -(-num_ids // num_shards)
        self.shards = [uniform(rows, 1 + WIDTH, scale=SCALE) for _ in range(num_shards)]
        self.squares = [tf.Variable(tf.zeros_like(each)) for each in self.shards]
        width = clicks.NUM_CATEGORIES * WIDTH + clicks.NUM_NUMBERS
        self.dense = [
            uniform(clicks.NUM_NUMBERS, WIDTH, scale=SCALE),
            uniform(clicks.NUM_NUMBERS, 1, scale=0.1),
        ]
        for outputs in (*HIDDEN, 1):
            self.dense += [uniform(width, outputs, scale=width**-0.5), tf.Variable(tf.zeros([outputs]))]
            width = outputs
        self.means = [tf.Variable(tf.zeros_like(each)) for each in self.dense]
        self.variances = [tf.Variable(tf.zeros_like(each)) for each in self.dense]
        self.powers = [tf.Variable(0.9), tf.Variable(0.999)]

    def scores(self, ids: Any, numbers: Any) -> Any:
        rows = tf.nn.embedding_lookup(self.shards, ids)
        weights, vectors = tf.reduce_sum(rows[..., 0], axis=1), rows[..., 1:]
        of_numbers, wide, *layers = self.dense
        hidden = tf.concat([tf.reshape(vectors, [-1, clicks.NUM_CATEGORIES * WIDTH]), numbers], axis=1)
        for at in range(0, len(layers), 2):
            hidden = tf.matmul(hidden, layers[at]) + layers[at + 1]
            if at + 2 < len(layers):
                hidden = tf.nn.relu(hidden)
        fields = tf.concat([vectors, numbers[:, :, None] * of_numbers], axis=1)
        pairs = tf.square(tf.reduce_sum(fields, axis=1)) - tf.reduce_sum(tf.square(fields), axis=1)
        found = weights + tf.squeeze(tf.matmul(numbers, wide) + hidden, axis=1)
        return found + 0.5 * tf.reduce_sum(pairs, axis=1)

    def move(self, gradients: Any, rate: float) -> None:
        ops, of_rows, of_dense = tf.raw_ops, gradients[: len(self.shards)], gradients[len(self.shards) :]
        for row, square, gradient in zip(self.shards, self.squares, of_rows):
            # Keras's optimizers add up the gradients of a row too, so that it moves once.
            ids, places = tf.unique(gradient.indices)
            sums = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(ids))
            ops.ResourceSparseApplyAdagradV2(
                var=row.handle, accum=square.handle, lr=10 * rate, epsilon=1e-10, grad=sums,
                indices=ids,
            )  # fmt: skip
        powers = [each.read_value() for each in self.powers]
        for weight, mean, variance, gradient in zip(self.dense, self.means, self.variances, of_dense):
            ops.ResourceApplyAdam(
                var=weight.handle, m=mean.handle, v=variance.handle, beta1_power=powers[0], beta2_power=powers[1],
                lr=rate, beta1=0.9, beta2=0.999, epsilon=1e-8, grad=gradient,
            )  # fmt: skip
        for power, beta in zip(self.powers, (0.9, 0.999)):
            power.assign(power * beta)


def _train(job: dict[str, Any], strategy: Any) -> dict[str, Any]:
    num_workers, batch = job["workers"], job["batch_size"] // job["workers"]
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        net = Net(job["num_ids"], len(job["ports"]["ps"]))

    made = clicks.made(job["batch_size"] * job["steps"], job["num_ids"])

    @tf.function
    def step(start: Any) -> Any:
        # Constants of the graph, which each worker has; an iterator of its own gave a worker one batch all the time.
        ids, numbers, clicked = (tf.constant(each)[start : start + batch] for each in made[:3])
        with tf.GradientTape() as tape:
            losses = tf.nn.sigmoid_cross_entropy_with_logits(clicked, net.scores(ids, numbers))
            loss = tf.reduce_mean(losses)
        net.move(tape.gradient(loss, [*net.shards, *net.dense]), job["lr"])
        return loss

    seconds, losses = [], []
    num_steps = job["steps"] * num_workers // STRETCHES
    for stretch in range(STRETCHES):
        begin = time.perf_counter()
        starts = [(stretch * num_steps + number) * batch for number in range(num_steps)]
        found = [coordinator.schedule(step, args=(tf.constant(start),)) for start in starts]
        coordinator.join()
        seconds.append((time.perf_counter() - begin) / num_steps * num_workers)
        losses.append(float(np.mean([each.fetch() for each in found])))
    return {"seconds": seconds[1:], "losses": losses}


if __name__ == "__main__":
    main()
