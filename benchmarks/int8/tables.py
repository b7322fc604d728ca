"""The tables of docs/int8.md, and what is wrong with their numbers."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from benchmarks.harness.tables import markdown

Known = Mapping[str, Dict[str, Any]]
# The sides, as `sides.py` calls them.
FLOAT32, INT8 = "float32", "int8"
SIDES = (FLOAT32, "float32, joined", "bfloat16", INT8, "onnxruntime float32", "onnxruntime int8")
SHOWN = {
    "digits": "digits, small_cnn",
    "resnet18": "resnet18_v1b, 224 px",
    "resnet50_v1b": "resnet50_v1b, 224 px",
}
BAR = 3.0  # times as fast as float32, of resnet18


def render(known: Known) -> str:
    """Return all tables of what is known."""
    parts = [_accuracies(known), _speeds(known, "speed"), _speeds(known, "portable"), _families(known)]
    return "\n\n".join(part for part in parts if part)


def problems(known: Known) -> list[str]:
    """Return which bars are not met, and what has failed."""
    found = [f"{name}: {each['failed']}" for name, each in known.items() if "failed" in each]
    for kind, runs in _by_kind(known).items():
        loss, spread = _loss(runs), _spread(runs)
        if len(runs) > 1 and loss > spread:
            found.append(
                f"{kind}: int8 loses {loss:.2%} of accuracy on average, seeds differ by {spread:.2%}"
            )
    for name, each in known.items():
        if name.startswith("speed:resnet18") and "milliseconds" in each:
            gain = each["milliseconds"][FLOAT32] / each["milliseconds"][INT8]
            if gain < BAR:
                found.append(f"{name}: int8 is {gain:.1f} times as fast as float32; the bar is {BAR}")
    return found


def _by_kind(known: Known) -> dict[str, list[dict[str, Any]]]:
    """Return the accuracies of the seeds of each net."""
    found: dict[str, list[dict[str, Any]]] = {}
    for name, each in sorted(known.items()):
        if name.startswith("accuracy:") and "accuracy" in each:
            _, kind, seed = name.split(":")
            found.setdefault(kind, []).append({**each, "seed": seed})
    return found


def _loss(runs: list[dict[str, Any]]) -> float:
    return sum(each["accuracy"][FLOAT32] - each["accuracy"][INT8] for each in runs) / len(runs)


def _spread(runs: list[dict[str, Any]]) -> float:
    found = [each["accuracy"][FLOAT32] for each in runs]
    return max(found) - min(found)


def _accuracies(known: Known) -> str:
    rows = []
    sides = [side for side in SIDES if side != "float32, joined"]
    for kind, runs in _by_kind(known).items():
        for each in runs:
            cells = [f"{each['accuracy'][side]:.2%}" for side in sides]
            rows.append([f"{SHOWN[kind]}, seed {each['seed']}", *cells])
        told = f"int8 less float32: {-_loss(runs):+.2%} on average; seeds differ by {_spread(runs):.2%}"
        rows.append([told, *[""] * len(sides)])
    samples = {str(each["samples"]) for runs in _by_kind(known).values() for each in runs}
    return markdown([f"accuracy on {', '.join(samples)} held-out digits", *sides], rows) if rows else ""


def _speeds(known: Known, table: str) -> str:
    entries = {
        name: each
        for name, each in sorted(known.items())
        if name.startswith(f"{table}:") and "milliseconds" in each
    }
    rows = []
    for name, each in entries.items():
        _, kind, batch = name.split(":")
        times = each["milliseconds"]
        gain = f"{times[FLOAT32] / times[INT8]:.1f}"
        rows.append(
            [SHOWN[kind], batch, *(f"{times[side]:.2f}" if side in times else "" for side in SIDES), gain]
        )
    if not rows:
        return ""
    used = next(iter(entries.values()))["kernels"]
    return markdown([f"ms an image, kernels {used}", "batch", *SIDES, "int8 gains"], rows)


def _families(known: Known) -> str:
    rows = []
    for name, each in known.items():
        if not name.startswith("family:"):
            continue
        net = name.split(":")[1]
        if "refused" in each or "failed" in each:
            why = "refused: no graph" if "refused" in each else f"failed: {each['failed']}"
            rows.append([net, why, *[""] * 4])
            continue
        left = ", ".join(f"{count} {kind}" for kind, count in each["float32"].items()) or "none"
        numbers = [f"{each['relative']:.1e}", f"{each['same_top1']:.0%}", each["ranges"]]
        rows.append([net, str(each["int8"]), left, *numbers])
    head = ["net", "operators in int8", "in float32", "largest difference", "same best class", "ranges"]
    return markdown(head, rows) if rows else ""
