"""The parts of a run's page that are no curves of its learning: where time went, layers, machines, workers, classes.

Owns how the records of docs/records.md become bounded lists for JSON; each function returns None where the run has no
such records. Drawing is the page's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mxtrain.report.evaluation import BACKGROUND
from mxtrain.report.history import History, Record
from mxtrain.report.page.curves import is_number, numbers
from mxtrain.report.page.downsample import evenly, piece_length

STAGES = ("split", "load", "compute", "synchronize", "update", "other")
COMPUTING = ("forward", "loss", "backward")
MOST_PIECES = 120  # of stacked shares
MOST_COLUMNS = 120  # of a heatmap, over steps
MOST_LAYERS = 200
MOST_CLASSES = 2000  # in the table
MATRIX_CLASSES = 30  # in a confusion matrix that can be read
MOST_CURVES = 7  # of classes in a plot


def stages_of(history: History) -> dict[str, Any] | None:
    """Return the seconds a step of each stage, over the run, and what the whole of it went into."""
    steps = history.column("step")
    columns = {name: np.nan_to_num(history.column(f"{name}_seconds")) for name in STAGES}
    columns = {name: column for name, column in columns.items() if column.any()}
    if not columns:
        return None
    each = piece_length(len(steps), MOST_PIECES)
    starts = np.arange(0, len(steps), each)
    sizes = np.diff([*starts, len(steps)])
    means = {name: numbers(np.add.reduceat(column, starts) / sizes) for name, column in columns.items()}
    sampled = np.flatnonzero(history.column("sampled") == 1)
    sampled = np.array(evenly(sampled.tolist(), MOST_PIECES), int)
    parts = {name: numbers(history.column(f"{name}_seconds")[sampled]) for name in COMPUTING}
    return {
        "step": steps[starts + sizes // 2].astype(int).tolist(),
        "seconds": means,
        "sampled": {"step": steps[sampled].astype(int).tolist(), "seconds": parts} if len(sampled) else None,
        "total": _total(history, columns),
    }


def _total(history: History, columns: dict[str, Any]) -> dict[str, float]:
    """Return the seconds of the whole run, by what they went into."""
    events = history.of_kind("event")
    beside: dict[str, list[Any]] = {
        "initialise": [event.get("initialise_seconds") for event in events],
        "evaluate": [record.get("seconds") for record in history.of_kind("eval")],
        "save": [event.get("seconds") for event in events if event.get("event") == "checkpoint"],
        "lost to restarts": [event.get("lost_seconds") for event in events],
    }
    sums = {name: float(sum(each for each in seconds if is_number(each))) for name, seconds in beside.items()}
    whole = {
        "initialise": sums.pop("initialise"),
        **{name: float(c.sum()) for name, c in columns.items()},
        **sums,
    }
    return {name: float(f"{seconds:.6g}") for name, seconds in whole.items() if seconds > 0}


def layers_of(history: History) -> dict[str, Any] | None:
    """Return the lengths of gradients, weights and updates as matrices, a row a parameter, a column a sampled step."""
    records = [each for each in history.of_kind("layers") if isinstance(each.get("gradients"), dict)]
    if not records:
        return None
    records = evenly(records, MOST_COLUMNS)
    names = list(dict.fromkeys(name for record in records for name in record["gradients"]))
    shown = evenly(names, MOST_LAYERS)
    curves = {
        quantity: [[_rounded(_inside(record, quantity).get(name)) for record in records] for name in shown]
        for quantity in ("gradients", "weights", "updates", "zero_rows")
    }
    curves = {
        quantity: rows
        for quantity, rows in curves.items()
        if any(value is not None for row in rows for value in row)
    }
    return {"step": [r["step"] for r in records], "names": shown, "num_layers": len(names), "kinds": curves}


def system_of(history: History, hours_since: float | None) -> list[dict[str, Any]]:
    """Return the curves of each host, grouped into plots, over hours since this time or else since its first record."""
    hosts: dict[str, list[Record]] = {}
    for record in history.of_kind("system"):
        hosts.setdefault(str(record.get("host", "")), []).append(record)
    return [_of_host(host, records, hours_since) for host, records in hosts.items()]


def _of_host(host: str, records: list[Record], hours_since: float | None) -> dict[str, Any]:
    records = evenly([record for record in records if is_number(record.get("time"))], 600)
    first = records[0]["time"] if records and hours_since is None else hours_since
    giga, mega = 2.0**30, 2.0**20
    plots: list[tuple[str, str, list[tuple[str, list[Any]]]]] = [
        (
            "Processor",
            "%",
            [_values(records, "cpu_percent", "machine"), _values(records, "process_cpu_percent", "run")],
        ),
        (
            "Memory",
            "GiB",
            [_values(records, "rss_bytes", "run", giga), _values(records, "memory_free_bytes", "free", giga)],
        ),
        (
            "Disk",
            "MiB/s",
            [_values(records, f"disk_{way}_bytes_per_second", way, mega) for way in ("read", "write")],
        ),
        (
            "Network",
            "MiB/s",
            [_values(records, f"network_{way}_bytes_per_second", way, mega) for way in ("in", "out")],
        ),
    ]
    gpus = dict.fromkeys(gpu.get("index") for record in records for gpu in _gpus(record))
    for key, title, unit, scale in (
        ("utilization_percent", "GPU", "%", 1.0),
        ("memory_bytes", "GPU memory", "GiB", giga),
    ):
        each = [
            (f"GPU {index}", [_scaled(_gpu(record, index).get(key), scale) for record in records])
            for index in gpus
        ]
        plots.append((title, unit, each))
    return {
        "host": host,
        "hours": numbers([(record["time"] - (first or 0)) / 3600 for record in records]),
        "plots": [
            {"title": title, "unit": unit, "lines": [{"name": name, "y": y} for name, y in lines if any(y)]}
            for title, unit, lines in plots
            if any(any(y) for _, y in lines)
        ],
    }


def memory_of(history: History) -> dict[str, Any] | None:
    """Return the bytes of each process of the last attempt by kind, by arithmetic, and those of one as measured."""
    epochs = history.of_kind("epoch")
    planned = [each["memory_bytes"] for each in epochs if isinstance(each.get("memory_bytes"), dict)]
    if not planned:
        return None
    rows = {
        str(process): {str(kind): size for kind, size in kinds.items() if is_number(size)}
        for process, kinds in planned[-1].items()
        if isinstance(kinds, dict)
    }
    peaks = [each["peak_rss_bytes"] for each in epochs if is_number(each.get("peak_rss_bytes"))]
    kinds = list(dict.fromkeys(kind for sizes in rows.values() for kind in sizes))
    return {"kinds": kinds, "rows": rows, "measured": max(peaks, default=None)}


def workers_of(history: History) -> dict[str, Any] | None:
    """Return what each worker's time went into, on average over the run, and who the others waited for."""
    records = [each for each in history.of_kind("workers") if isinstance(each.get("workers"), list)]
    ranks: dict[int, list[Record]] = {}
    for record in records:
        for worker in record["workers"]:
            if isinstance(worker, dict) and isinstance(worker.get("rank"), int):
                ranks.setdefault(worker["rank"], []).append(worker)
    if len(ranks) < 2:
        return None
    rows: list[Record] = []
    for rank, of_rank in sorted(ranks.items()):
        means = {name: _mean(worker.get(f"{name}_seconds") for worker in of_rank) for name in STAGES[:-1]}
        working = [means[name] or 0.0 for name in ("split", "load", "compute", "update")]
        rows.append(
            {
                **{"rank": rank, "host": str(of_rank[-1].get("host", "")), "seconds": means},
                **{
                    "working": _rounded(sum(working)),
                    "cpu_percent": _mean(w.get("cpu_percent") for w in of_rank),
                },
                "rss_bytes": _mean(worker.get("rss_bytes") for worker in of_rank),
            }
        )
    slowest = max(rows, key=lambda row: row["working"])
    others = [row for row in rows if row is not slowest]
    main = max(("load", "compute", "update"), key=lambda name: _lead(slowest, others, name))
    return {"rows": rows, "slowest": slowest["rank"], "slow_in": main}


def _lead(row: Record, others: list[Record], name: str) -> float:
    """Return how much longer than the others' median this worker needs for a stage."""
    return float((row["seconds"][name] or 0) - np.median([each["seconds"][name] or 0 for each in others]))


def classes_of(history: History, names: list[str]) -> dict[str, Any] | None:
    """Return the table, the matrix of the most confused classes, and the calibration of the newest evaluation."""
    records = history.of_kind("classes")
    if not records:
        return None
    record = records[-1]
    support, precision, recall = (
        [*map(_rounded, record.get(key) or [])] for key in ("support", "precision", "recall")
    )
    if not len(support) == len(precision) == len(recall):
        return None
    names = [names[i] if i < len(names) else f"class {i}" for i in range(len(support))]
    averages = [*map(_rounded, record.get("ap") or record.get("iou") or [None] * len(support))]
    order = sorted(range(len(support)), key=lambda i: (recall[i] is None, recall[i] or 0, -(support[i] or 0)))
    rows = [[i, support[i], precision[i], recall[i], averages[i]] for i in order[:MOST_CLASSES]]
    if record.get("has_background"):  # a class that no box has
        names, support, recall = [*names, BACKGROUND], [*support, 0], [*recall, 0]
    return {
        **{"step": record["step"], "names": names, "rows": rows, "ece": _rounded(record.get("ece"))},
        "matrix": _matrix(_pairs(record), support, recall),
        "boxes": _boxes(record, averages),
        "has_overlaps": "iou" in record,
        "bins": [[_rounded(v) for v in each] for each in record.get("bins") or [] if len(each) == 3],
    }


def _boxes(record: Record, averages: list[Any]) -> dict[str, Any] | None:
    """Return the precision over recall of the classes whose average precision is lowest, and of all on average."""
    curves = [list(map(_rounded, curve)) for curve in record.get("curves") or [] if isinstance(curve, list)]
    known = [i for i, curve in enumerate(curves) if averages[i] is not None and None not in curve]
    if not known:
        return None
    lowest = sorted(known, key=lambda i: averages[i] or 0)[:MOST_CURVES]
    mean = np.array([curves[i] for i in known], np.float64).mean(axis=0)
    return {
        "recalls": numbers(np.linspace(0, 1, len(mean))),
        "mean": numbers(mean),
        "classes": [{"class": i, "y": curves[i]} for i in sorted(lowest)],
        "of": len(known),
        "least_score": _rounded(record.get("least_score")),
    }


def _pairs(record: Record) -> list[list[int]]:
    """Return what was confused: class, prediction, how often."""
    found = record.get("confusion") or []
    return [[int(v) for v in each] for each in found if len(each) == 3 and each[0] != each[1]]


def _matrix(pairs: list[list[int]], support: list[Any], recall: list[Any]) -> dict[str, Any] | None:
    """Return the confusions of all classes, or of those that are confused most, and the pairs that are most often."""
    if not pairs:
        return None
    often = [0] * len(support)
    for truth, predicted, samples in pairs:
        for each in (truth, predicted):
            if each < len(often):
                often[each] += samples
    chosen = sorted(sorted(range(len(support)), key=lambda i: -often[i])[:MATRIX_CLASSES])
    at = {each: place for place, each in enumerate(chosen)}
    counts = [[0] * len(chosen) for _ in chosen]
    for each in chosen:
        counts[at[each]][at[each]] = round((support[each] or 0) * (recall[each] or 0))
    for truth, predicted, samples in pairs:
        if truth in at and predicted in at:
            counts[at[truth]][at[predicted]] += samples
    return {"classes": chosen, "counts": counts, "most": pairs[:20], "of": len(support)}


def _values(records: list[Record], key: str, name: str, scale: float = 1.0) -> tuple[str, list[Any]]:
    return name, [_scaled(record.get(key), scale) for record in records]


def _gpus(record: Record) -> list[Record]:
    found = record.get("gpus")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _gpu(record: Record, index: Any) -> Record:
    return next((gpu for gpu in _gpus(record) if gpu.get("index") == index), {})


def _inside(record: Record, key: str) -> Record:
    found = record.get(key)
    return found if isinstance(found, dict) else {}


def _scaled(value: Any, scale: float) -> float | None:
    return _rounded(value / scale) if is_number(value) else None


def _rounded(value: Any) -> float | None:
    return float(f"{value:.5g}") if is_number(value) else None


def _mean(values: Any) -> float | None:
    found = [value for value in values if is_number(value)]
    return _rounded(float(np.mean(found))) if found else None
