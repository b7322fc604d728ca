"""Exactness of the sums of gradients: the same bits whoever computes them, or a reason against it (docs/adr/0020).

The one place that decides it, and says why where they are not. Does not own the sums (`optim/sums/grid.py`).
"""

from __future__ import annotations

from typing import Mapping, Sequence

from mxtrain.config import Run, batch_plan
from mxtrain.config.components import stores


def reason_against(
    run: Run, tables: Sequence[str] = (), other_types: Mapping[str, str] | None = None
) -> str | None:
    """Return what in `run` keeps gradients from being added exactly, in words; None where nothing does.

    `tables` are the names of trained parameters with row-sparse gradients, `other_types` the types of those that are
    not float32, by name.
    """
    layout, optim = run.layout, run.optim
    reasons = [
        (optim.sums == "fast", "--sums fast"),
        (stores.is_async(layout.kvstore), f"--kvstore {layout.kvstore}"),
        (optim.compress != "none", f"--compress {optim.compress}"),
        (is_on_gpus(run), f"--devices {layout.devices}"),
        (bool(tables), f"the row-sparse gradient of {', '.join(tables[:1])}"),
        *((True, f"{name} in {dtype}") for name, dtype in list((other_types or {}).items())[:1]),
    ]
    return " and ".join(words for applies, words in reasons if applies) or None


def has_sums(run: Run) -> bool:
    """Return whether a step of `run` adds gradients at all; a single micro-batch's are its sum."""
    return batch_plan.of_run(run).num_micro_batches > 1


def warning(run: Run, reason: str) -> str:
    """Return a line for a run whose gradients are not added exactly for this `reason`: what follows for its bits."""
    return f"gradients are added as they come, not exactly ({reason}): {_consequence(run)}"


def _consequence(run: Run) -> str:
    layout = run.layout
    if stores.is_async(layout.kvstore) and layout.num_workers > 1:
        return "the curve depends on which worker comes first"
    if run.optim.compress != "none":
        return "another number of workers computes another curve"
    mapping = "another number of devices or workers gives other last bits"
    if stores.has_servers(layout.kvstore) and layout.num_workers > 2:
        return f"{layout.num_workers} workers get other last bits each time, and {mapping}"
    return f"last bits on GPUs may differ each time, and {mapping}" if is_on_gpus(run) else mapping


def is_on_gpus(run: Run) -> bool:
    """Return whether the devices of a worker are GPUs."""
    return batch_plan.parse_devices(run.layout.devices)[0][0] == "gpu"
