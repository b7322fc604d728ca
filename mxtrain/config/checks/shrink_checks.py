"""Refusals of `--prune` and `--average` where they cannot mean what they say."""

from __future__ import annotations

from mxtrain.config import Model, Run
from mxtrain.config.components import choices, stores
from mxtrain.core.errors import UsageError, nearest


def check(run: Run) -> None:
    """Raise UsageError for the first flag that does not go with the others."""
    _check_prune(run)
    _check_average(run)


def _check_prune(run: Run) -> None:
    share, by = run.model.prune, run.model.prune_by
    if by not in choices.PRUNED:
        raise UsageError(
            f"--prune-by {by}: unknown{nearest(by, choices.PRUNED)} ({', '.join(choices.PRUNED)})"
        )
    if not share:
        if by != Model.prune_by:
            raise UsageError(f"--prune-by {by}: give --prune too, the share that is taken out, as in 0.5")
        return
    if share >= 1:
        raise UsageError(f"--prune {share:g}: leaves nothing; give a number below 1, such as 0.5")
    if not run.model.pretrained:
        raise UsageError(
            f"--prune {share:g} takes the least of a trained net; give that as --pretrained, a run folder for instance"
        )
    if by == "weight" and stores.is_async(run.layout.kvstore):
        raise UsageError(
            f"--prune-by weight with --kvstore {run.layout.kvstore}: servers hold the weights, and would move those "
            "that are 0; give dist_sync, or --prune-by channel"
        )


def _check_average(run: Run) -> None:
    optim = run.optim
    if not optim.average:
        return
    flag, store = f"--average {optim.average}", run.layout.kvstore
    for refused, other, why in (
        (optim.ema, f"--ema {optim.ema:g}", "are two means of the weights; give one"),
        (
            optim.early_stop,
            f"--early-stop {optim.early_stop}",
            "do not go together: a run that ends early has no last epochs to average",
        ),
        (
            stores.is_async(store),
            f"--kvstore {store}",
            "do not go together: servers hold the weights; give dist_sync",
        ),
    ):
        if refused:
            raise UsageError(f"{flag} and {other} {why}")
