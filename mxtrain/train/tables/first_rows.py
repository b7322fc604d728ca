"""The rows that the tables of a new run begin with: those of `--pretrained`, where that has some.

Owns finding them, and what is said of tables that have none. First values of other rows are `tables/first_values.py`'s.
"""

from __future__ import annotations

import logging
from pathlib import Path

from mxtrain.checkpoint import initial_weights
from mxtrain.cluster.worker_group import WorkerGroup
from mxtrain.config import Run
from mxtrain.core.errors import UsageError
from mxtrain.models.parameters import pretrained
from mxtrain.tables import row_files
from mxtrain.train.tables.step_tables import StepTables

logger = logging.getLogger(__name__)


def bring(tables: StepTables, run: Run, group: WorkerGroup) -> None:
    """Have the owners of rows take those of --pretrained, with what their optimizers remember; a collective.

    UsageError where there are rows of some tables only.
    """
    source, names = run.model.pretrained, [table.options.name for table in tables.tables]
    # A .params file has no rows beside it.
    folder = None
    if source and not Path(source).is_file():
        folder = initial_weights.checkpoint_at("--pretrained", source).path
    there = [] if folder is None else [name for name in names if row_files.has_rows(folder, name)]
    missing = [name for name in names if name not in there]
    if folder is not None and there:
        if missing:
            raise UsageError(
                f"--pretrained {folder}: has rows of table {there[0]} and none of {missing[0]}; give a run with both, "
                f"or its {initial_weights.weights_of(folder).name}, which has weights alone"
            )
        if group.rank == 0:
            tables.owners.read(folder)
        group.sum(0)  # until all rows are there
        logger.info("--pretrained %s: rows of %s taken", folder, ", ".join(names))
    elif source:
        logger.warning("--pretrained %s: has no rows of %s, which begin anew", source, ", ".join(names))
    frozen = [table.options.name for table in tables.tables if table.is_frozen]
    pretrained.warn_of_untrained(run.model.freeze, [name for name in frozen if name in missing], source)
