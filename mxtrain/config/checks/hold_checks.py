"""Refusals of flags that do not go with `--hold layers`: those that need the whole net, and stores without owners."""

from __future__ import annotations

from mxtrain.config import Run, batch_plan, program_objects
from mxtrain.config.components import choices, stores
from mxtrain.core.errors import UsageError, nearest

FLAG = f"--hold {choices.HOLD_LAYERS}"


def check(run: Run) -> None:
    """Raise UsageError for the first flag that does not go with --hold."""
    check_known(run.layout.hold)
    if run.layout.hold == choices.HOLD_ALL:
        return
    _check_store(run)
    _check_whole_nets(run)


def check_known(hold: str) -> None:
    """Raise UsageError for a value that --hold does not have."""
    if hold not in choices.HOLD:
        raise UsageError(f"--hold {hold}: unknown{nearest(hold, choices.HOLD)} ({', '.join(choices.HOLD)})")


def _check_store(run: Run) -> None:
    store, devices = run.layout.kvstore, run.layout.devices
    if len(batch_plan.parse_devices(devices)) > 1 or batch_plan.parse_devices(devices)[0][0] != "cpu":
        raise UsageError(
            f"{FLAG} with --devices {devices}: a worker computes on one CPU context; give --devices cpu, and more "
            "--num-workers"
        )
    if stores.is_cluster(store) and not stores.has_owners(store, run.layout.update):
        raise UsageError(
            f"{FLAG} with --kvstore {store}: each worker would hold all weights; give --kvstore dist_sync --update "
            f"{choices.ON_SERVERS}"
        )


def _check_whole_nets(run: Run) -> None:
    model, optim, output = run.model, run.optim, run.output
    whole = "takes the whole net"
    for refused, flag, why in (
        (optim.ema, f"--ema {optim.ema:g}", f"{whole}, and a copy of it; leave it out"),
        (optim.average, f"--average {optim.average}", f"{whole}, and a copy of it; leave it out"),
        (model.prune, f"--prune {model.prune:g}", f"{whole}; leave one of them out"),
        (model.teacher, f"--teacher {model.teacher}", "is a second net, held as a whole; leave it out"),
        (output.profile, f"--profile {output.profile}", "knows nets of one graph; leave it out"),
        (optim.sums == "fast", "--sums fast", "depends on who adds first; give --sums exact"),
        (
            program_objects.is_object(model.model),
            f"--model {model.model}",
            "is a net that is here already; give a name or module:callable",
        ),
    ):
        if refused:
            raise UsageError(f"{flag} with {FLAG}: {why}")
