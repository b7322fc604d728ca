"""Refusals of flags that do not go with `--hold layers`: those that need the whole net, and stores without owners."""

from __future__ import annotations

from mxtrain.config import Run, batch_plan, program_objects
from mxtrain.config.components import choices, stores
from mxtrain.core.errors import UsageError, nearest

FLAG = f"--hold {choices.HOLD_LAYERS}"


def is_held(run: Run) -> bool:
    """Return whether a worker holds a part of what it trains at a time: a segment, or a chunk of the head."""
    return run.layout.hold == choices.HOLD_LAYERS or has_lent_head(run)


def has_lent_head(run: Run) -> bool:
    """Return whether servers own the chunks of a net's head, and lend them."""
    layout = run.layout
    return run.model.head_chunk > 0 and stores.has_owners(layout.kvstore, layout.update)


def flag_of(run: Run) -> str:
    """Return the flag by which a run is held."""
    is_of_layers = run.layout.hold == choices.HOLD_LAYERS or not has_lent_head(run)
    return FLAG if is_of_layers else f"--head-chunk {run.model.head_chunk} --update {run.layout.update}"


def check(run: Run) -> None:
    """Raise UsageError for the first flag that does not go with --hold, or with a head that servers lend."""
    check_known(run.layout.hold)
    if not is_held(run):
        return
    _check_store(run)
    _check_whole_nets(run)


def check_known(hold: str) -> None:
    """Raise UsageError for a value that --hold does not have."""
    if hold not in choices.HOLD:
        raise UsageError(f"--hold {hold}: unknown{nearest(hold, choices.HOLD)} ({', '.join(choices.HOLD)})")


def _check_store(run: Run) -> None:
    flag, store, devices = flag_of(run), run.layout.kvstore, run.layout.devices
    if len(batch_plan.parse_devices(devices)) > 1 or batch_plan.parse_devices(devices)[0][0] != "cpu":
        raise UsageError(
            f"{flag} with --devices {devices}: a worker computes on one CPU context; give --devices cpu, and more "
            "--num-workers"
        )
    if stores.is_cluster(store) and not stores.has_owners(store, run.layout.update):
        raise UsageError(
            f"{flag} with --kvstore {store}: each worker would hold all weights; give --kvstore dist_sync --update "
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
            raise UsageError(f"{flag} with {flag_of(run)}: {why}")
