"""Refusals of flags that do not go with tables of rows, of which nobody has a copy (`mxtrain/tables/`)."""

from __future__ import annotations

from typing import Sequence

from mxtrain.config import Run
from mxtrain.config.components import choices, stores
from mxtrain.core.errors import UsageError


def check(run: Run, tables: Sequence[str]) -> None:
    """Raise UsageError for the first flag that does not go with a net that has these tables."""
    layout, optim, model = run.layout, run.optim, run.model
    table = f"a net with tables ({tables[0]})"
    if stores.is_cluster(layout.kvstore) and not stores.has_owners(layout.kvstore, layout.update):
        raise UsageError(
            f"--kvstore {layout.kvstore} with {table}: servers own their rows; give --kvstore dist_sync --update "
            f"{choices.ON_SERVERS}"
        )
    for refused, flag, why in (
        (optim.ema, f"--ema {optim.ema:g}", "rows have no averages"),
        (optim.average, f"--average {optim.average}", "rows have no averages"),
        (model.prune, f"--prune {model.prune:g}", "rows have no masks"),
    ):
        if refused:
            raise UsageError(f"{flag} with {table}: {why}; leave it out")
