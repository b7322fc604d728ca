"""The evaluation of a net on a data set: every sample once, exact counts.

Owns the numbers of an evaluation, for training and for the evaluate command. The net sees micro-batches of the size
that it trains with: they fit here too, where nothing is kept for a backward pass.
"""

from __future__ import annotations

import collections
import math
from typing import Any, Sequence

import numpy as np

from mxtrain.cluster.worker_group import SINGLE_WORKER, WorkerGroup, in_order, sum_arrays
from mxtrain.config import Run, batch_plan
from mxtrain.core.errors import Stop
from mxtrain.data import pictures, sample_requests
from mxtrain.data.augment import eval_transform
from mxtrain.data.loader import Loader, loader_options
from mxtrain.data.records import Records
from mxtrain.models.losses import Loss
from mxtrain.train.to_device import dtype_of, to_context


def resize_of(run: Run) -> int:
    """Return the length of a picture's short side before the centre crop."""
    return run.data.val_resize or round(run.data.image_size / 0.875)


def evaluate(
    run: Run,
    net: Any,
    loss: Loss,
    records: Records,
    contexts: Sequence[Any],
    stop_requests: Sequence[Stop] = (),
    group: WorkerGroup = SINGLE_WORKER,
    step: int = 0,
) -> dict[str, Any] | None:
    """Return loss, accuracy and top-5 accuracy over all of `records`, which the workers of `group` divide among them.

    None after a stop request on any worker. `loss` is that of the labels as they are, without what helps training:
    smoothing, mixing, a teacher. `step` is reported as this worker's progress.
    """
    # A row for each micro-batch: their sum has the same bits whoever computes them.
    rows = np.zeros((math.ceil(len(records) / batch_plan.of_run(run).micro_batch), 3))
    own_rows = rows[group.rank :: group.world_size]
    with open_loader(run, records, group) as loader:
        pending: collections.deque[tuple[Any, Any, Any]] = collections.deque()
        for batch in loader:
            if stop_requests:
                break
            group.report_progress("evaluation", step)
            context = contexts[batch.request.position % len(contexts)]
            data, label = (to_context(batch.arrays[name], context) for name in ("data", "label"))
            output = net(data).astype("float32", copy=False)
            pending.append((batch, output, loss(output, label)))
            # As many batches compute at once as there are devices.
            if len(pending) == len(contexts):
                _collect(loader, own_rows, *pending.popleft())
        while pending:
            _collect(loader, own_rows, *pending.popleft())
            group.report_progress()
    rows, num_stop_requests = sum_arrays(group, [rows, np.array(len(stop_requests))])
    if num_stop_requests:
        return None
    mean_loss, correct, correct_top5 = in_order(rows) / len(records)
    return {
        "val_loss": float(mean_loss),
        "val_accuracy": float(correct),
        "val_top5_accuracy": float(correct_top5),
        "num_samples": len(records),
    }


def open_loader(run: Run, records: Records, group: WorkerGroup = SINGLE_WORKER) -> Loader:
    """Return a loader of this worker's part of all samples, each once, in micro-batches of training's size."""
    requests = sample_requests.evaluation_requests(
        len(records), batch_plan.of_run(run).micro_batch, group.rank, group.world_size
    )
    size = run.data.image_size
    transform = eval_transform(size, resize_of(run))
    assembly = pictures.picture_assembly(records, transform, size, 0, run.data.skip_bad, dtype_of(run))
    return Loader(assembly, requests, loader_options(run.data))


def _collect(loader: Loader, rows: Any, batch: Any, output: Any, losses: Any) -> None:
    """Wait for a batch's outputs and release it; write its summed loss and its hits at 1 and at 5 into its row."""
    order = np.argsort(-output.asnumpy(), axis=1, kind="stable")[:, :5]
    hits = order == batch.arrays["label"][:, None]
    loss = losses.asnumpy().sum(dtype=np.float64)
    rows[batch.request.position] = loss, hits[:, 0].sum(), hits.any(axis=1).sum()
    loader.release(batch)
