"""The curves of a run: which there are, from its records, as bounded lists of points.

Owns which numbers belong into one plot, and its title and words. Drawing is the page's, and `plots.py`'s.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mxtrain.report.history import History
from mxtrain.report.page.downsample import MOST_POINTS, thinned

NOT_CURVES = {
    *("step", "epoch", "time", "seconds", "sampled", "applied", "num_samples"),
    *(f"{stage}_seconds" for stage in ("split", "load", "compute", "synchronize", "update", "other")),
    *("forward_seconds", "loss_seconds", "backward_seconds"),
}
TITLES = {
    "loss": "Loss",
    "lr": "Learning rate",
    "gradient_norm": "Length of the gradient",
    "loss_scale": "Loss scale",
    "staleness": "Staleness of gradients",
    "skipped_steps": "Skipped steps",
    "bad_records": "Bad records",
    "top5_accuracy": "Top-5 accuracy",
    "f1": "F1",
    "ece": "Calibration error (ECE)",
}
# From first to last on the page; those of tasks and of --metric come after the loss.
FIRST, LAST = ("loss",), ("lr", "gradient_norm", "loss_scale", "staleness", "skipped_steps", "bad_records")
# That say nothing as long as they are always 0, or 1; the last, of up to five classes.
SILENT = {*LAST, "top5_accuracy"} - {"lr"}


class Axis(NamedTuple):
    """The epochs and hours that the steps of a run are."""

    steps: Any
    hours: Any  # at each of them, from the first record on
    steps_per_epoch: int | None  # None as long as the first epoch is not over


def axis_of(history: History) -> Axis:
    """Return the axis of a run; runs of earlier versions tell how long steps took, not when they were."""
    steps, times = history.column("step"), history.column("time")
    starts = [event["time"] for event in history.of_kind("event") if is_number(event.get("time"))]
    if np.isfinite(times).any():
        first = min([np.nanmin(times), *starts[:1]])
        hours = (times - first) / 3600
    else:
        hours = np.cumsum(np.nan_to_num(history.column("seconds"))) / 3600
    usable = np.isfinite(steps) & np.isfinite(hours)
    epochs = history.column("epoch")
    later = np.flatnonzero(epochs > 1)
    steps_per_epoch = int(steps[later[0]] - 1) // int(epochs[later[0]] - 1) if len(later) else 0
    return Axis(steps[usable], hours[usable], steps_per_epoch or None)


def curves_of(history: History, most: int = MOST_POINTS) -> list[dict[str, Any]]:
    """Return the plots of a run, each a dict with `name`, `title` and `lines`."""
    found = []
    for name in _names(history):
        lines = [
            _line("training", history.column("step"), history.column(name), most),
            _line("validation", *_evaluations(history, f"val_{name}"), most),
        ]
        lines = [line for line in lines if line["y"]]
        if lines and not (name in SILENT and _is_constant(lines)):
            found.append({"name": name, "title": title_of(name), "lines": lines})
    return found


def title_of(name: str) -> str:
    """Return the words for a number's name."""
    if name.endswith("_per_second"):
        return f"{name[: -len('_per_second')].replace('_', ' ').capitalize()} a second"
    words = name.replace("_", " ")
    return TITLES.get(name, words[:1].upper() + words[1:])


def numbers(values: Any) -> list[float | None]:
    """Return the values for JSON, with six digits, which are more than any plot shows."""
    return [
        float(f"{value:.6g}") if np.isfinite(value) else None for value in np.asarray(values, float).tolist()
    ]


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and bool(np.isfinite(float(value)))


def _names(history: History) -> list[str]:
    """Return the numbers that get a plot, in the page's order."""
    trained = [name for name in history.train if name not in NOT_CURVES]
    evaluated = dict.fromkeys(
        name[4:] for record in history.of_kind("eval") for name in record if name.startswith("val_")
    )
    speeds = [name for name in trained if name.endswith("_per_second")]
    known = dict.fromkeys([*trained, *evaluated])
    middle = [name for name in known if name not in (*FIRST, *LAST, *speeds)]
    return [name for name in (*FIRST, *middle, *LAST, *speeds) if name in known]


def _evaluations(history: History, name: str) -> tuple[Any, Any]:
    found = [record for record in history.of_kind("eval") if is_number(record.get(name))]
    return np.array([record["step"] for record in found]), np.array([record[name] for record in found])


def _line(name: str, steps: Any, values: Any, most: int) -> dict[str, Any]:
    points = thinned(steps, values, most)
    line: dict[str, Any] = {"name": name, "step": points.x.astype(int).tolist(), "y": numbers(points.mean)}
    if points.piece > 1:
        line.update(low=numbers(points.low), high=numbers(points.high), each=points.piece)
    if len(points.x):
        at = [_newest(np.argmin, points.low), _newest(np.argmax, points.high)]
        line["summary"] = {
            "last": numbers([points.mean[-1]])[0],
            "lowest": [numbers([points.low[at[0]]])[0], int(points.x[at[0]])],
            "highest": [numbers([points.high[at[1]]])[0], int(points.x[at[1]])],
        }
    return line


def _newest(extreme: Any, values: Any) -> int:
    """Return the place of the extreme, of equals the last one, as the best score is the newest of equals."""
    return len(values) - 1 - int(extreme(values[::-1]))


def _is_constant(lines: list[dict[str, Any]]) -> bool:
    return all(len(set(line["y"])) == 1 and "low" not in line for line in lines) and lines[0]["y"][0] in (
        0,
        1,
    )
