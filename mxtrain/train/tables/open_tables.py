"""The tables of a net in training, with the owners of their rows: servers that own weights, or this process."""

from __future__ import annotations

import dataclasses

from mxtrain.config.checks import store_checks, table_checks
from mxtrain.kvstore.owners import mapped
from mxtrain.kvstore.owners.remote import RemoteOwners
from mxtrain.kvstore.tables.local import LocalTables
from mxtrain.kvstore.tables.owner import TableOwners
from mxtrain.kvstore.tables.remote import RemoteTables
from mxtrain.models.nets.table import Table, tables_of
from mxtrain.runtime.types import Block
from mxtrain.tables.options import TableOptions
from mxtrain.train.job import TrainingJob
from mxtrain.train.tables.step_tables import StepTables


def open_tables(job: TrainingJob, net: Block, servers: RemoteOwners | None) -> StepTables | None:
    """Return the tables of a net with the owners of their rows, on `servers` or here; None for a net without any.

    UsageError for flags that do not go with tables.
    """
    tables = tables_of(net)
    if not tables:
        if servers is None:  # which is known only now: tables of one process would lie there
            store_checks.refuse_folder(job.run)
        return None
    table_checks.check(job.run, [table.options.name for table in tables])
    for table in tables:
        table.options = dataclasses.replace(table.options, seed=job.run.optim.seed)
    options = [_moving(table) for table in tables]
    owners: TableOwners
    if servers is None:
        owners = LocalTables(options, mapped.open_folder(job.run.layout.store_dir))
    else:
        owners = RemoteTables(servers.links, options)
    return StepTables(tables, owners)


def _moving(table: Table) -> TableOptions:
    """Return the options by which a table's rows move in this run."""
    options = dataclasses.replace(table.options, rate_factor=table.options.rate_factor * table.lr_mult)
    # Frozen rows rest without being used, and are none to forget.
    return dataclasses.replace(options, expire_after=0) if table.is_frozen else options
