"""How good a net is on a data set: every sample once, exact counts.

Owns the numbers of an evaluation; who asks for it (the loop, the evaluate command) decides what becomes of them. The
net sees micro-batches of training's size: what fits there fits here, where nothing is kept for a backward pass.
"""

from __future__ import annotations

import collections
from typing import Any, Sequence

import numpy as np

from mxtrain.cluster.worker_group import SINGLE_WORKER, WorkerGroup
from mxtrain.config import Run, batch_plan
from mxtrain.core.errors import Stop
from mxtrain.data import sample_requests
from mxtrain.data.assembly import SampleAssembly
from mxtrain.data.augment import eval_transform
from mxtrain.data.loader import Loader, loader_options
from mxtrain.models.losses import Loss
from mxtrain.train.to_device import dtype_of, to_context


def resize_of(run: Run) -> int:
    """The short side before the centre crop."""
    return run.data.val_resize or round(run.data.image_size / 0.875)


def evaluate(
    run: Run,
    net: Any,
    loss: Loss,
    records: Any,
    contexts: Sequence[Any],
    stop_requests: Sequence[Stop] = (),
    group: WorkerGroup = SINGLE_WORKER,
    step: int = 0,
) -> dict[str, Any] | None:
    """Loss, accuracy and top-5 accuracy over all of `records`, shared among workers; None once one wishes to end.

    `loss` is that of the labels as they are, without what helps training: smoothing, mixing, a teacher. `step` is how
    far the net has been trained, for those who watch the workers.
    """
    sums: Any = np.zeros(3)
    with opened(run, records, group) as loader:
        under_way: collections.deque[tuple[Any, Any, Any]] = collections.deque()
        for batch in loader:
            if stop_requests:
                break
            group.report_progress("evaluation", step)
            context = contexts[batch.request.position % len(contexts)]
            data, label = to_context(batch.data, context), to_context(batch.label, context)
            output = net(data).astype("float32", copy=False)
            under_way.append((batch, output, loss(output, label)))
            # As many batches compute at once as there are devices.
            if len(under_way) == len(contexts):
                sums += _collect(loader, *under_way.popleft())
        while under_way:
            sums += _collect(loader, *under_way.popleft())
            group.report_progress()
    *sums, num_wishes = group.sum([*sums, len(stop_requests)])
    if num_wishes:
        return None
    mean_loss, correct, correct_top5 = (total / len(records) for total in sums)
    return {
        "val_loss": float(mean_loss),
        "val_accuracy": float(correct),
        "val_top5_accuracy": float(correct_top5),
        "num_samples": len(records),
    }


def opened(run: Run, records: Any, group: WorkerGroup = SINGLE_WORKER) -> Loader:
    """This worker's share of every sample once, in micro-batches of training's size."""
    requests = sample_requests.evaluation_requests(
        len(records), batch_plan.of_run(run).micro_batch, group.rank, group.world_size
    )
    size = run.data.image_size
    fill = SampleAssembly(records, eval_transform(size, resize_of(run)), seed=0, skip_bad=run.data.skip_bad)
    return Loader(fill, (3, size, size), requests, loader_options(run.data), dtype_of(run))


def _collect(loader: Loader, batch: Any, output: Any, losses: Any) -> Any:
    """The batch's summed loss and its hits at 1 and at 5, waiting for them; the batch's buffers are free then."""
    order = np.argsort(-output.asnumpy(), axis=1, kind="stable")[:, :5]
    hits = order == batch.label[:, None]
    found = np.array([losses.asnumpy().sum(dtype=np.float64), hits[:, 0].sum(), hits.any(axis=1).sum()])
    loader.release(batch)
    return found
