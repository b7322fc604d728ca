"""The data of a page: of one or several runs, as a dict for JSON. What the page shows is in here, and nothing else.

Owns what is said about a run: its state, best score, events, config and environment, and how configs of runs differ.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
import os
import socket
import time
from pathlib import Path
from typing import Any, Sequence

import numpy as np

from mxtrain.core import formats
from mxtrain.report.diagnosis import diagnose
from mxtrain.report.history import History
from mxtrain.report.page import curves, sample_previews, sections
from mxtrain.report.page.curves import is_number
from mxtrain.report.page.downsample import MOST_POINTS, evenly

SILENT_SECONDS = 60.0  # after which a run on another host, whose lock is not seen here, has died
MOST_EVENTS = 300
MOST_CHARACTERS = 2000  # of a config value or the text of an event


def page_data(histories: Sequence[History], is_live: bool = False) -> dict[str, Any]:
    """Return the data of the page of these runs."""
    most = max(MOST_POINTS // max(len(histories), 1), 100)
    return {
        "made": now(),
        "live": is_live,
        "runs": [run_data(history, name, most) for name, history in named(histories)],
        "differences": differences([history.config for history in histories]),
    }


def now() -> str:
    """Return the time, for people."""
    return datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def run_data(history: History, name: str, most: int = MOST_POINTS) -> dict[str, Any]:
    """Return the data of one run."""
    checkpoint = newest_checkpoint(history.folder)
    axis = curves.axis_of(history)
    # State of earlier versions has the class names in the first row.
    described: dict[str, Any] = checkpoint.get("description") or checkpoint
    class_names = [str(each) for each in described.get("class_names") or []]
    thin = evenly(list(range(len(axis.steps))), most)
    return {
        "name": name,
        "folder": str(history.folder),
        "state": state_of(history),
        "facts": facts(history, axis, checkpoint),
        "axis": {
            "steps": axis.steps[thin].astype(int).tolist(),
            "hours": curves.numbers(axis.hours[thin]),
            "stepsPerEpoch": axis.steps_per_epoch,
        },
        "curves": curves.curves_of(history, most),
        "events": events(history, axis),
        "numEvents": len(history.of_kind("event")),
        "findings": [dataclasses.asdict(finding) for finding in diagnose(history)],
        "stages": sections.stages_of(history),
        "layers": sections.layers_of(history),
        "hosts": sections.system_of(history, _first_time(history)),
        "memory": sections.memory_of(history),
        "workers": sections.workers_of(history),
        "classes": sections.classes_of(history, class_names),
        "worst": sample_previews.worst_samples(history, class_names, str(described.get("tokenizer") or "")),
        "augmented": sample_previews.augmented_samples(history),
        "config": [[key, shortened(value)] for key, value in history.config.items()],
        "environment": environment(history),
        "damaged": history.num_damaged,
    }


def state_of(history: History) -> dict[str, str]:
    """Return whether the run is running, has ended, was stopped, or died: one word, and a sentence."""
    is_here = history.environment.get("host") == socket.gethostname()
    if is_locked(history.folder / ".lock") or (not is_here and _was_written_lately(history)):
        return {"word": "running", "text": "This run is going on."}
    last = next((e for e in reversed(history.of_kind("event")) if e.get("event") in ("end", "stop")), None)
    newest = history.column("step")
    if last and (not len(newest) or last["step"] >= newest[-1]):
        word = "ended" if last["event"] == "end" else "stopped"
        return {"word": word, "text": shortened(last.get("text") or last.get("reason") or "")}
    if not len(newest):
        return {"word": "empty", "text": "This run has recorded no step yet."}
    if not history.of_kind("event"):
        return {
            "word": "not running",
            "text": "A run of an earlier version, which does not tell how it ended.",
        }
    return {"word": "died", "text": "It has recorded no end, and nothing holds its folder: it was killed."}


def is_locked(path: Path) -> bool:
    """Return whether a process of this machine holds the lock of a run folder, without ever holding it ourselves."""
    try:
        found = path.stat()
        locks = Path("/proc/locks").read_text().split("\n")
    except OSError:
        return False
    device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
    return any(f" {device}:{found.st_ino} " in line for line in locks)


def facts(history: History, axis: curves.Axis, checkpoint: dict[str, Any]) -> list[list[str]]:
    """Return the numbers at the top of the page: what it is, the value, and a word beside it."""
    rows: list[list[str]] = []
    best = best_score(history, checkpoint)
    if best:
        rows.append([f"best {best[0].replace('_', ' ')}", f"{best[1]:.4g}", f"validation, step {best[2]:,}"])
    steps, losses = history.column("step"), history.column("loss")
    if len(steps):
        epoch = history.column("epoch")[-1]
        rows.append(["steps", f"{int(steps[-1]):,}", f"epoch {epoch:g}" if np.isfinite(epoch) else ""])
        if math.isfinite(losses[-1]):
            rows.append(["last loss", f"{losses[-1]:.4g}", "training"])
    if len(axis.hours) and axis.hours[-1] > 0:
        rows.append(["time", duration(axis.hours[-1] * 3600), _begin(history)])
    for name in history.train:
        if name.endswith("_per_second"):
            speed = np.nanmedian(history.column(name)) if np.isfinite(history.column(name)).any() else 0
            rows.append(
                [f"{name[: -len('_per_second')].replace('_', ' ')} a second", f"{speed:.4g}", "median"]
            )
    epochs = [each for each in history.of_kind("epoch") if is_number(each.get("flops_per_second"))]
    if epochs and is_number(epochs[-1].get("peak_flops_per_second")) and epochs[-1]["peak_flops_per_second"]:
        rate, peak = epochs[-1]["flops_per_second"], epochs[-1]["peak_flops_per_second"]
        rows.append(["GFLOP a second", f"{rate / 1e9:.3g}", f"{100 * rate / peak:.0f}% of the machine's"])
    memory = [
        each["peak_rss_bytes"] for each in history.of_kind("epoch") if is_number(each.get("peak_rss_bytes"))
    ]
    if memory:
        rows.append(["memory", f"{max(memory) / 2**30:.2f} GiB", "at most"])
    return rows


def best_score(history: History, checkpoint: dict[str, Any]) -> tuple[str, float, int] | None:
    """Return name, value and step of the best score; by accuracy or loss where no checkpoint names the score."""
    evaluations = history.of_kind("eval")
    has_accuracy = any(is_number(each.get("val_accuracy")) for each in evaluations)
    name = checkpoint.get("scored_by") or ("accuracy" if has_accuracy else "loss")
    is_lower_better = checkpoint.get("is_lower_better", name == "loss")
    found = [
        each for each in reversed(evaluations) if is_number(each.get(f"val_{name}"))
    ]  # of equals the newest
    if not found:
        return None
    chosen = (min if is_lower_better else max)(found, key=lambda each: each[f"val_{name}"])
    return str(name), float(chosen[f"val_{name}"]), int(chosen["step"])


def events(history: History, axis: curves.Axis) -> list[dict[str, Any]]:
    """Return what happened, in its order; of very many events some, but every start, restart, stop and end."""
    records = [each for each in history.of_kind("event") if isinstance(each.get("event"), str)]
    rare = [each for each in records if each["event"] in ("start", "restart", "stop", "end")][-MOST_EVENTS:]
    common = evenly(
        [each for each in records if each["event"] not in ("start", "restart", "stop", "end")], MOST_EVENTS
    )
    chosen = {id(each) for each in (*rare, *common)}
    first = _first_time(history)
    return [
        {
            **{"step": each["step"], "event": each["event"], "text": _describe_event(each)},
            "after": duration(each["time"] - first)
            if first is not None and is_number(each.get("time"))
            else "",
        }
        for each in records
        if id(each) in chosen
    ]


def _describe_event(event: dict[str, Any]) -> str:
    """Return the sentence of an event, with the lines below it where it has some."""
    lines = event.get("lines")
    more = [str(line) for line in lines] if isinstance(lines, list) else []
    return shortened("\n".join([str(event.get("text", "")), *more]))


def environment(history: History) -> list[list[str]]:
    """Return what the run ran on and with, as pairs."""
    found, rows = history.environment, []
    command = found.get("command")
    if isinstance(command, list):
        rows.append(["command", " ".join(map(str, command))])
    for key in ("host", "platform", "python", "mxtrain", "folder"):
        if key in found:
            rows.append([key, found[key]])
    for group in ("wheels", "kernels", "git"):
        inside = found.get(group)
        rows += (
            [[f"{group}: {key}", value] for key, value in inside.items()] if isinstance(inside, dict) else []
        )
    return [[str(key), shortened(value)] for key, value in rows]


def differences(configs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the flags that are not the same in all configs; the folder of the output always differs."""
    keys = dict.fromkeys(key for config in configs for key in config if key != "out")
    rows = [(str(key), [shortened(config.get(key, "")) for config in configs]) for key in keys]
    return [{"flag": key, "values": values} for key, values in rows if len(set(values)) > 1]


def newest_checkpoint(folder: Path) -> dict[str, Any]:
    """Return what the state of the newest checkpoint says; {} where there is none that can be read.

    UsageError where a newer mxtrain has written it.
    """
    for path in sorted((folder / "checkpoints").glob("step-*/state.json"), reverse=True):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(found, dict):
            number = found.get("version")
            if isinstance(number, int) and number > formats.CHECKPOINT:
                raise formats.newer(path, number, formats.CHECKPOINT)
            return found
    return {}


def duration(seconds: float) -> str:
    """Return a time in words that are short: 42 s, 3 min 5 s, 2 h 10 min, 3 d 4 h."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    whole = round(seconds)
    for size, unit, part, smaller in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def shortened(value: Any) -> str:
    """Return a value as text, not longer than can be read."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}… ({len(text):,} characters)"


def named(histories: Sequence[History]) -> list[tuple[str, History]]:
    """Return each run with a name: its folder's, with as many parents as tell it from the others."""
    paths = [history.folder.resolve() for history in histories]
    names = [str(path) for path in paths]
    for depth in range(max((len(path.parts) for path in paths), default=1), 0, -1):
        shorter = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(shorter)) < len(set(paths)):
            break
        names = shorter
    return [(shortened(name), history) for name, history in zip(names, histories)]


def _was_written_lately(history: History) -> bool:
    if any(each.get("event") in ("end", "stop") for each in history.of_kind("event")[-3:]):
        return False
    times = history.column("time")
    return bool(len(times) and math.isfinite(times[-1]) and time.time() - times[-1] < SILENT_SECONDS)


def _first_time(history: History) -> float | None:
    times = history.column("time")
    found = [each["time"] for each in history.of_kind("event")[:1] if is_number(each.get("time"))]
    found += times[np.isfinite(times)][:1].tolist()
    return min(found) if found else None


def _begin(history: History) -> str:
    first = _first_time(history)
    if first is None:
        return "of training"
    return datetime.datetime.fromtimestamp(first).strftime("%Y-%m-%d %H:%M")
