"""The curves of runs as pictures, for papers and messages: `--png`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator, Sequence

from mxtrain.core import durable
from mxtrain.core.errors import UsageError
from mxtrain.report.history import History
from mxtrain.report.page import curves, page_data, page_inputs, plots


def write(histories: Sequence[History], folder: Path) -> Iterator[Path]:
    """Write a picture of each curve that the runs have into the folder, and yield its path."""
    named = page_data.named(histories)
    parts: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for name, history in named:
        for curve in curves.curves_of(history):
            parts.setdefault(curve["name"], []).append((name, curve))
    if not parts:
        raise UsageError(f"{histories[0].path}: has no step yet, so there is no curve; wait for the first")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise durable.cannot_write(folder, error) from None
    for name, of_runs in parts.items():
        path = folder / f"{''.join(c if c.isalnum() or c in '-_' else '_' for c in name)[:100]}.png"
        page_inputs.refuse(path, histories)
        lines = [
            plots.Line(line["name"] if len(named) == 1 else f"{run}, {line['name']}", number, line)
            for number, (run, curve) in enumerate(of_runs)
            for line in curve["lines"]
        ]
        plots.draw_curve(path, of_runs[0][1]["title"], lines)
        yield path
