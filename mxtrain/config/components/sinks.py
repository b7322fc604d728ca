"""Sinks of a run's records by name: `--log`. To add one is an entry here, and a function that opens it.

Owns which there are and what they need. How they are opened, and what becomes of one that fails, is
`mxtrain/report/sinks/writers.py`'s.
"""

from __future__ import annotations

import dataclasses
import importlib.util

from mxtrain.config.components import import_path
from mxtrain.config.components.component import Component, by_name
from mxtrain.core.errors import UsageError, nearest


@dataclasses.dataclass(frozen=True)
class Sink(Component):
    """A sink; its factory takes a `Logged` run and returns an object with `write(record)` and `close()`."""

    package: str = ""  # that it imports, of the extra `logging`


_SINKS = "mxtrain.report.sinks."
CONSOLE, NONE = "console", "none"

SINKS = by_name(
    Sink(CONSOLE, "the terminal", _SINKS + "console:open_sink"),
    Sink("tensorboard", "event files", _SINKS + "tensorboard:open_sink", package="tensorboardX"),
    Sink("wandb", "Weights & Biases", _SINKS + "wandb_sink:open_sink", package="wandb"),
    Sink("csv", "a table", _SINKS + "csv_table:open_sink"),
    Sink(NONE, "nothing but metrics.jsonl"),
)


def check_name(name: str, out: str) -> None:
    """Refuse a name of --log that is no sink, and no path of a callable."""
    if name in SINKS:
        return
    if import_path.is_import_path(name):
        import_path.check_name("--log", name, SINKS)
        return
    raise UsageError(
        f"--log {name}: unknown{nearest(name, SINKS)} ({', '.join(SINKS)}); {out}/metrics.jsonl holds every number "
        "without it"
    )


def check_package(name: str) -> None:
    """Refuse a sink whose package is not installed."""
    package = SINKS[name].package if name in SINKS else ""
    if package and not importlib.util.find_spec(package):
        raise UsageError(f"--log {name} needs {package}: pip install 'mxtrain[logging]'")
