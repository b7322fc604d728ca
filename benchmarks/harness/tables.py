"""Tables in Markdown, bars that are met or missed, and the pages that tables are written into. Pure but for `write`."""

from __future__ import annotations

from pathlib import Path
from typing import Iterable, NamedTuple, Sequence

END = "<!-- to here -->"


class Bar(NamedTuple):
    """A bar, and what was found, in words; found is None where it was not measured."""

    what: str
    found: str | None
    bar: str
    is_met: bool = False


def markdown(head: Sequence[str], rows: Iterable[Sequence[object]], align: str = "l") -> str:
    """Return a table; `align` has l or r for each column, and its last letter stands for those after it."""
    align = align.ljust(len(head), align[-1])
    rule = "|" + "".join("---:|" if side == "r" else "---|" for side in align)
    lines = [f"| {' | '.join(map(str, row))} |" for row in (head, *rows)]
    return "\n".join([lines[0], rule, *lines[1:]])


def render_bars(bars: Sequence[Bar], head: str = "") -> tuple[str, bool]:
    """Return a table with a line for each bar, and whether all were measured and are met."""
    rows = [
        (each.what, each.found or "not measured", each.bar, "met" if each.is_met else "MISSED")
        for each in bars
    ]
    return markdown([head, "found", "bar", ""], rows, "lrrl"), all(each.is_met for each in bars)


def begin(module: str) -> str:
    """Return the mark of a page after which a benchmark writes its tables."""
    return f"<!-- python -m benchmarks.{module} --write: from here -->"


def between_marks(page: Path, module: str) -> str:
    """Return what a page has from a benchmark; SystemExit where it has no marks."""
    return _split(page, module)[1]


def write(page: Path | None, module: str, text: str) -> None:
    """Print `text`, and write it between the marks of a page, if any is meant."""
    print(text)
    if page is not None:
        before, _, after = _split(page, module)
        page.write_text(f"{before}{begin(module)}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def _split(page: Path, module: str) -> tuple[str, str, str]:
    before, _, rest = page.read_text(encoding="utf-8").partition(begin(module))
    inner, mark, after = rest.partition(END)
    if not mark:
        raise SystemExit(f"{page}: there is no {begin(module)} ... {END} to write between")
    return before, inner, after
