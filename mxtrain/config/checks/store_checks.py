"""Refusals of flags that do not go with the store: without a cluster, under dist_async, with row-sparse tables.

Clipping is allowed under dist_async: it shortens a worker's own gradient, which is what an update is made from.
"""

from __future__ import annotations

import os
from typing import Sequence

from mxtrain.config import Layout, Run, batch_plan
from mxtrain.config.components import choices, optimizers, stores
from mxtrain.core.errors import UsageError, nearest

CLUSTER_FLAGS = (
    *("num_workers", "num_servers", "min_workers"),
    *("start_timeout", "silence_timeout", "stall_timeout", "max_restarts"),
)
LAZY_OPTIMIZERS = tuple(each.name for each in optimizers.OPTIMIZERS.values() if each.is_lazy)


def check_store(run: Run) -> None:
    """Raise UsageError for a --kvstore that cannot work here, or a flag that does not go with it."""
    store = run.layout.kvstore
    if stores.is_cluster(store):
        refuse_folder(run)
    if run.layout.update == choices.ON_SERVERS:
        _check_owners(run)
    if stores.is_cluster(store):
        _check_cluster(run)
        return
    if stores.is_compressed(run.optim.compress):
        raise UsageError(
            f"--compress {run.optim.compress}: --kvstore {store} sends nothing anywhere; leave it out"
        )
    if store not in stores.STORES:
        raise UsageError(f"--kvstore {store}: unknown{nearest(store, stores.STORES)}")
    if stores.STORES[store].is_of_gpus and batch_plan.parse_devices(run.layout.devices)[0][0] != "gpu":
        raise UsageError(
            f"--kvstore {store} sums over GPUs, but --devices is {run.layout.devices}; give --devices gpu:0,1 or "
            "--kvstore device"
        )
    role = os.environ.get("DMLC_ROLE", "")
    if role:
        raise UsageError(f"DMLC_ROLE={role} is set, but --kvstore {store} has no roles; unset DMLC_ROLE")
    for name in CLUSTER_FLAGS:
        value, flag = getattr(run.layout, name), "--" + name.replace("_", "-")
        if value != getattr(Layout, name):
            raise UsageError(
                f"{flag} {value:g} needs a dist_* --kvstore or allreduce, but it is {store}; add --kvstore dist_sync, "
                f"or leave {flag} out"
            )


def _check_cluster(run: Run) -> None:
    layout = run.layout
    if layout.num_servers != Layout.num_servers and not stores.has_servers(layout.kvstore):
        raise UsageError(
            f"--num-servers {layout.num_servers}: --kvstore {layout.kvstore} has no servers; leave it out, or give "
            "dist_sync"
        )
    if stores.is_async(layout.kvstore):
        check_async(run)
    _check_compress(run)
    check_min_workers(run.layout)


def refuse_folder(run: Run) -> None:
    """Raise UsageError for a --store-dir of a run whose workers keep nothing in files."""
    layout = run.layout
    has_owners = stores.has_owners(layout.kvstore, layout.update) or layout.hold == choices.HOLD_LAYERS
    if layout.store_dir and not has_owners:
        raise UsageError(
            f"--store-dir {layout.store_dir}: each worker holds all weights in its memory; give --kvstore "
            f"dist_sync --update {choices.ON_SERVERS}, or --hold {choices.HOLD_LAYERS}; in one process tables of rows "
            "lie there too"
        )


def _check_owners(run: Run) -> None:
    """Raise UsageError for the first flag that does not go with --update servers."""
    store, optim, model = run.layout.kvstore, run.optim, run.model
    if not stores.has_servers(store):
        raise UsageError(
            f"--update {run.layout.update}: --kvstore {store} has no servers; give --kvstore dist_sync, or leave it out"
        )
    if stores.is_async(store):  # where servers always do, and more is refused
        return
    name = optimizers.parse(optim).name
    for refused, flag, why in (
        (
            name not in optimizers.OPTIMIZERS,
            f"--optimizer {name}",
            "servers run no code that a worker names; give a known one, as sgd or adamw",
        ),
        (optim.compress != "none", f"--compress {optim.compress}", "servers add exact sums; leave it out"),
        (
            model.prune and model.prune_by == "weight",
            f"--prune {model.prune:g} --prune-by weight",
            "servers hold the weights, and would move those that are 0; leave it out",
        ),
    ):
        if refused:
            raise UsageError(f"{flag} with --update {run.layout.update}: {why}")


def check_min_workers(layout: Layout) -> None:
    """Raise UsageError if --min-workers is above the job's number of workers; the scheduler checks no more."""
    if layout.min_workers > layout.num_workers:
        raise UsageError(
            f"--min-workers {layout.min_workers} is more than the {layout.num_workers} workers of the job; give "
            f"{layout.num_workers} or less"
        )


def _check_compress(run: Run) -> None:
    store = run.layout.kvstore
    if stores.rounds_gradients(run.optim.compress) and stores.has_servers(store):
        raise UsageError(
            f"--compress {run.optim.compress}: servers of --kvstore {store} add float32 alone; give --kvstore "
            "allreduce or --compress 2bit"
        )
    if not stores.compression_threshold(run.optim.compress):
        return
    if run.model.loss_scale != "auto" or run.model.amp == "fp16":
        raise UsageError(
            f"--compress {run.optim.compress}: its threshold means another gradient with every loss scale; leave "
            "--loss-scale and --amp fp16 out"
        )


def check_async(run: Run) -> None:
    """Raise UsageError for the first flag that does not go with dist_async."""
    store, optim = f"--kvstore {run.layout.kvstore}", run.optim
    name = optimizers.parse(optim).name
    scale = run.model.loss_scale
    scales = scale == "dynamic" or (scale == "auto" and run.model.amp == "fp16")
    num_workers, num_micro_batches = run.layout.num_workers, batch_plan.of_run(run).num_micro_batches
    for refused, flag, why in (
        (optim.ema, f"--ema {optim.ema:g}", "no worker sees every update; leave it out"),
        (optim.compress != "none", f"--compress {optim.compress}", "works with dist_sync only"),
        (
            optim.lr_base_batch,
            f"--lr-base-batch {optim.lr_base_batch}",
            "an update is made by one worker's part of the batch; give the --lr for that",
        ),
        (
            scales,
            f"--amp {run.model.amp} --loss-scale {scale}",
            "each worker would have another scale; give a number as --loss-scale",
        ),
        (
            name in optimizers.OPTIMIZERS and optimizers.OPTIMIZERS[name].needs_whole_layers,
            f"--optimizer {name}",
            "needs the length of whole layers, of which a server has a part; give sgd or adamw",
        ),
        (
            name not in optimizers.OPTIMIZERS,
            f"--optimizer {name}",
            "servers run no code that a worker names; give a known one, as sgd or adamw",
        ),
        (
            num_micro_batches < num_workers,
            f"--num-workers {num_workers}",
            f"a batch of {num_micro_batches} micro-batches leaves some without work; give a smaller --micro-batch",
        ),
    ):
        if refused:
            raise UsageError(f"{flag} with {store}: {why}")


def check_tables(run: Run, unknown: Sequence[str]) -> None:
    """Raise UsageError for flags that do not go with row-sparse tables; `unknown` are those of no SparseEmbedding."""
    model, optim, store = run.model, run.optim, run.layout.kvstore
    name = optimizers.parse(optim).name
    tables = "with a row-sparse table in the net"
    if name not in LAZY_OPTIMIZERS:
        raise UsageError(
            f"--optimizer {name} {tables}: moves all rows at every step; give {' or '.join(LAZY_OPTIMIZERS)}"
        )
    if stores.is_cluster(store) and unknown:
        raise UsageError(
            f"--model {run.model.model}: {unknown[0]} has row-sparse gradients; with --kvstore {store} that has to be "
            "a mxtrain.models.SparseEmbedding, which knows where its rows are"
        )
    if stores.has_owners(store, run.layout.update):
        raise UsageError(
            f"--update {run.layout.update} {tables}: of which whole rows alone travel; leave --update out"
        )
    if stores.is_cluster(store) and not stores.has_servers(store):
        raise UsageError(
            f"--kvstore {store} {tables}: rows of which travel to and from servers; give dist_sync"
        )
    if not stores.is_cluster(store) or stores.is_async(store):  # refused there whatever the net
        return
    for refused, flag, why in (
        (optim.ema, f"--ema {optim.ema:g}", "no worker sees every update"),
        (optim.clip_norm, f"--clip-norm {optim.clip_norm:g}", "no worker sees the whole gradient"),
        (optim.clip_value, f"--clip-value {optim.clip_value:g}", "no worker sees the whole gradient"),
        (optim.compress != "none", f"--compress {optim.compress}", "weights are what servers send back"),
        (
            optim.average,
            f"--average {optim.average}",
            "servers hold the weights, and send back those of the last step",
        ),
        (
            model.prune and model.prune_by == "weight",
            f"--prune {model.prune:g} --prune-by weight",
            "servers hold the weights, and would move those that are 0",
        ),
    ):
        if refused:
            raise UsageError(f"{flag} with --kvstore {store} {tables}: {why}; leave it out")
