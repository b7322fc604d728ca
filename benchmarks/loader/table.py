"""Measurements as Markdown tables, and the comparison of ratios with their bars. Pure functions."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Tuple

from benchmarks.harness import tables
from benchmarks.harness.rounds import medians
from benchmarks.loader.contend import CONTENDERS, Absent, Cell, Measured, Outcome
from benchmarks.loader.images import PACKS

Results = Dict[Tuple[str, Cell], List[Outcome]]  # by a contender's name; an outcome for each round


class Bar(NamedTuple):
    """The least ratio of the peer's CPU time for an image to mxtrain's."""

    peer: str
    workers: int
    least: float


BARS = (Bar("dali", 1, 1.4), Bar("tf_data", 1, 1.8), Bar("dali", 2, 1.25))
BARS_PACK, BARS_BATCH = "restart", "float32"


def median(outcomes: list[Outcome]) -> Outcome:
    """Return the median of the rounds; one without a number counts for all."""
    measured = [outcome for outcome in outcomes if isinstance(outcome, Measured)]
    if not outcomes or len(measured) < len(outcomes):
        return next((outcome for outcome in outcomes if isinstance(outcome, Absent)), Absent("not measured"))
    return Measured(*medians(measured))


def plain(results: Results) -> list[dict[str, object]]:
    """Return the results for JSON."""
    return [
        {"contender": name, **cell._asdict(), "rounds": [outcome._asdict() for outcome in outcomes]}
        for (name, cell), outcomes in results.items()
    ]


def render(results: Results) -> str:
    """Return a table for each pack and kind of batch."""
    groups = dict.fromkeys((cell.pack, cell.batch) for _, cell in results)
    return "\n\n".join(_table(results, *group) for group in groups)


def _table(results: Results, pack: str, batch: str) -> str:
    cells = sorted({cell for _, cell in results if (cell.pack, cell.batch) == (pack, batch)})
    workers = [f"{cell.workers} worker{'s' if cell.workers > 1 else ''}" for cell in cells]
    columns = [f"{what}, {number}" for number in workers for what in ("CPU ms an image", "images/s")]
    rows = []
    for name in dict.fromkeys(name for name, _ in results):
        entries = [entry for cell in cells for entry in _entries(median(results.get((name, cell), [])))]
        rows.append([CONTENDERS[name].title, *entries])
    return f"{batch} batches, pack {PACKS[pack]}:\n\n{tables.markdown(['', *columns], rows, 'lr')}"


def _entries(outcome: Outcome) -> tuple[str, str]:
    if isinstance(outcome, Absent):
        return outcome.reason, ""
    return f"{outcome.cpu_milliseconds:.3f}", f"{outcome.images_per_second:.0f}"


def render_bars(results: Results) -> tuple[str, bool]:
    """Return a table with a line for each bar, and whether all were measured and are met."""
    rows, all_met = [], True
    for bar in BARS:
        ratios = {pack: _ratio(results, bar, pack) for pack in PACKS}
        judged = ratios[BARS_PACK]
        met = judged is not None and judged >= bar.least
        all_met &= met
        verdict = "met" if met else "MISSED" if judged is not None else "MISSED: not measured"
        shown = ("" if ratio is None else f"{ratio:.2f}" for ratio in ratios.values())
        who = f"{CONTENDERS[bar.peer].title}, {bar.workers} worker{'s' if bar.workers > 1 else ''}"
        rows.append([who, bar.least, *shown, verdict])
    head = ["CPU time an image over mxtrain's, float32", "bar", *PACKS.values(), ""]
    text = tables.markdown(head, rows, "lrrrl")
    return f"{text}\n\nThe bars apply to the pack {PACKS[BARS_PACK]}.", all_met


def _ratio(results: Results, bar: Bar, pack: str) -> float | None:
    cell = Cell(pack, BARS_BATCH, bar.workers)
    peer, ours = (median(results.get((name, cell), [])) for name in (bar.peer, "mxtrain"))
    if isinstance(peer, Absent) or isinstance(ours, Absent):
        return None
    return peer.cpu_milliseconds / ours.cpu_milliseconds
