"""Training from a Python program: `fit(Run.of(...), net=my_net)`.

Owns the objects that stand in for names, and Ctrl-C. Hooks are `hooks.py`'s, what a run puts back is
`process_isolation.py`'s. Imported through `mxtrain.fit`.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import signal
import sys
from typing import Any

from mxtrain import runtime
from mxtrain.cluster import environment
from mxtrain.cluster.environment import NodeSpec
from mxtrain.config import Model, Optim, Run
from mxtrain.config.checks import bounds
from mxtrain.config.components import stores
from mxtrain.config.flags import from_python
from mxtrain.config.program_objects import ProgramObjects
from mxtrain.core.errors import SIGINT, Stop, UsageError
from mxtrain.data.arrays import columns
from mxtrain.train import session, signals
from mxtrain.train.cluster import serving
from mxtrain.train.library import process_isolation, result
from mxtrain.train.library.hooks import Hook, Hooks, check
from mxtrain.train.library.result import Result

logger = logging.getLogger(__name__)

_clusters: list[NodeSpec] = []  # one, from the first run over a cluster on


def fit(
    run: Run,
    *,
    train: object = None,
    val: object = None,
    net: object = None,
    loss: object = None,
    task: object = None,
    metric: object = None,
    optimizer: object = None,
    schedule: object = None,
    on_begin: Hook = None,
    on_step: Hook = None,
    on_evaluation: Hook = None,
    on_end: Hook = None,
    hooks: object = None,
) -> Result:
    """Train `run`, made by `Run.of(...)`, and return its `Result`.

    What else is given stands in the place of the run's flags of the same names: an object, or text as for the command.

    Args:
        run: the description of the run; its folder is `out`. If that holds checkpoints of the same run, this call goes
            on from the newest, as the command does, and takes objects of the same types for the same objects.
        train: what to learn from: a tuple of arrays `(x, y)`, a list of samples, a Gluon Dataset or DataLoader; with
            `epoch_steps` a generator function too, or another iterable without a length.
        val: what to evaluate on, as `train` but no DataLoader.
        net: a Gluon block, or a function that returns one. It keeps the values and initialisers that it has (those of
            `net.initialize(...)`); other parameters are drawn as `init` and `seed` say. It is trained in place.
        loss: a Gluon Loss, or a function `(output, label) -> losses`, one for each sample.
        task: a class that inherits `mxtrain.tasks.task.Task`. Left out, samples that were given and are no pictures
            (uint8, height x width x channels) are learnt as "arrays", as is a stream where `num_classes` is not given.
        metric: what evaluations tell besides: a function of all predictions and targets, an object with `state` and
            `finish` (`mxtrain.tasks.task.Metric`), a name, or a list of these.
        optimizer: an `mxnet.optimizer.Optimizer`, whose learning rate and weight decay become the run's `lr` and
            `weight_decay`. It is copied, and so left as it is.
        schedule: a function from the progress of the run, 0 to 1, to a factor of `lr`, or one of MXNet's LRSchedulers,
            from which rates are taken as they are.
        on_begin: called with a copy of the record `start` or `restart`, a dict with the number of the `attempt` and
            the `step` that it goes on from, before the first of the other hooks.
        on_step: called with a copy of each step's record. It looks, and changes nothing of the run; it raises
            `StopTraining` to end the run after a checkpoint. Errors in it end the run too.
        on_evaluation: the same for each evaluation's record.
        on_end: called with the record `end`, or `stop` with its `reason`, of each run that has begun, also of one that
            an error or Ctrl-C ends, when all is written.
        hooks: an object with any of the methods `begin`, before the first step of this call, `step`, after each one,
            `evaluation`, after each one, `checkpoint`, when one is whole on disk, and `end`, when all is written,
            whatever has ended it. Each gets a `Moment`, and may raise `StopTraining`.

    Raises:
        UsageError, DataError, Diverged: as the command says them, see `mxtrain.core.errors`.
        KeyboardInterrupt: after a checkpoint on Ctrl-C, at once on a second one. In other threads than Python's main
            one signals stay the caller's.
    """
    values = {"train": train, "val": val, "model": net, "loss": loss, "task": task}
    values.update(metric=metric, optimizer=optimizer, schedule=schedule)
    run, objects = _with_objects(run, values)
    functions = {"on_begin": on_begin, "on_step": on_step, "on_evaluation": on_evaluation, "on_end": on_end}
    check(functions, hooks)
    _check_threads(run)
    node = _node(run)
    if node is not None:
        run = node.with_counts(run)
        if node.role != "worker":
            serving.serve(run, node)
    requests = signals.keyboard_interrupts() if node is None else signals.stop_requests()
    with process_isolation.isolated_run(), requests as stop_requests:
        ended = _trained(run, objects, node, Hooks(functions, hooks, stop_requests), stop_requests)
    if not ended.has_happened:
        logger.warning(
            "%s: this run had ended before, and nothing was trained; a net or loss that was given is taken for the one "
            "of that time. resume='never' begins anew, another out keeps both",
            ended.out,
        )
    return result.from_ended_run(ended)


def _trained(
    run: Run, objects: ProgramObjects, node: NodeSpec | None, hooks: Hooks, stop_requests: list[Stop]
) -> session.Ended:
    """Train `run` and return what came of it; KeyboardInterrupt where Ctrl-C has ended it."""
    ending = None
    try:
        ended = session.train(
            session.prepare(run, node, objects=objects, stop_requests=stop_requests), stop_requests, hooks
        )
        ending = ended.ending
        return ended
    except Stop as stop:
        if node is None and stop.exit_code == SIGINT and signals.STOPS[signal.SIGINT] in stop_requests:
            raise KeyboardInterrupt(
                "stopped by Ctrl-C; the same call goes on from the newest checkpoint"
            ) from None
        raise
    finally:
        hooks.end(ending)


def _with_objects(run: Run, values: dict[str, Any]) -> tuple[Run, ProgramObjects]:
    """Return `run` with these values of flags and the numbers that an optimizer brings, and the objects among them."""
    if not isinstance(run, Run):
        raise UsageError(
            f"fit: takes a run first, as in fit(Run.of(epochs=3), ...); got a {type(run).__name__}"
        )
    for name, is_set in (("dry_run", run.output.dry_run), ("plot_schedule", run.output.plot_schedule)):
        if is_set:
            raise UsageError(
                f"{name}: is the command's, mxtrain.fit --{name.replace('_', '-')}; leave it out"
            )
    optimizer, schedule = values["optimizer"], values["schedule"]
    if hasattr(optimizer, "wd") and hasattr(optimizer, "num_update"):
        if optimizer.num_update > optimizer.begin_num_update:
            raise UsageError(f"optimizer: has made {optimizer.num_update} updates already; give a new one")
        if optimizer.lr_scheduler is not None:
            if schedule is not None:
                raise UsageError("optimizer: has an lr_scheduler, and there is a schedule; give one of them")
            values = {**values, "schedule": optimizer.lr_scheduler}
        run = _with_numbers(run, lr=float(optimizer.lr), weight_decay=float(optimizer.wd))
    has_task = values["task"] is not None or run.model.task != Model.task or "task" in run.explicit
    if not has_task and _is_of_arrays(run, values["train"]):
        values = {**values, "task": "arrays"}
    run, objects = from_python.with_objects(run, values)
    if hasattr(values["schedule"], "base_lr"):
        for name in ("warmup_epochs", "lr_base_batch"):
            if getattr(run.optim, name):
                raise UsageError(f"{name}: an LRScheduler has its own rates; leave {name} out")
    bounds.check(run)
    return run, objects


def _is_of_arrays(run: Run, train: object) -> bool:
    """Return whether a training set that was given holds something else than pictures.

    Of a stream, which epoch_steps goes with, no sample is read for that: one of pictures has num_classes.
    """
    if train is None or isinstance(train, str):
        return False
    return not run.data.num_classes if run.optim.epoch_steps else not columns.holds_pictures(train)


def _check_threads(run: Run) -> None:
    """Refuse another number of threads than mxnet was imported with: it keeps those, and last bits depend on them."""
    requested, loaded = run.layout.threads, runtime.loaded_threads()
    if requested and loaded not in (None, requested):
        raise UsageError(
            f"threads={requested}: mxnet computes with {loaded} since it was imported; set OMP_NUM_THREADS={requested} "
            "before Python starts, or start another process"
        )


def _with_numbers(run: Run, **brought: Any) -> Run:
    """Return `run` with an optimizer's own numbers; UsageError where the run says another one itself."""
    for name, value in brought.items():
        own, default = getattr(run.optim, name), getattr(Optim, name)
        if own not in (default, value):
            raise UsageError(f"{name}={own:g}: the optimizer has {value:g}; give it there or here")
    return dataclasses.replace(run, optim=dataclasses.replace(run.optim, **brought))


def _node(run: Run) -> NodeSpec | None:
    """Return this process's place in its cluster; None without a dist_* store. UsageError where nobody started one."""
    if not stores.is_cluster(run.layout.kvstore):
        return None
    node = environment.node_spec(os.environ, run)
    if node is None:
        workers = run.layout.num_workers
        servers = f"--num-servers {run.layout.num_servers} " if stores.has_servers(run.layout.kvstore) else ""
        raise UsageError(
            f"kvstore={run.layout.kvstore}: every process of the cluster has to run this program; start it by "
            f"python -m mxtrain.fit --kvstore {run.layout.kvstore} --num-workers {workers} {servers}"
            f"--out {run.output.out} {os.path.basename(sys.argv[0]) or 'train.py'}"
        )
    if _clusters:
        raise UsageError(
            "this program has trained over its cluster, which has ended with that; start another for more"
        )
    _clusters.append(node)
    return node
