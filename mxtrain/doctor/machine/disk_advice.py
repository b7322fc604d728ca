"""Advice about files that are read too slowly, from the rates that `disk_rates.py` measures. Pure.

Owns the thresholds, and the order in which cures are tried: memory, then a cache or a copy on a disk nearby.
"""

from __future__ import annotations

import math
from typing import Any, Mapping, NamedTuple

SPARE = 1.25  # times the rate that the run needs: then reading waits for nothing
MOST_COLD = 0.5  # below this share of uncached pages nothing was learnt about the disk
SHARE_OF_MEMORY, SHARE_OF_DISK = 0.6, 0.8  # that a cache or a copy may take of what is free


class Near(NamedTuple):
    """A folder on a local disk, or another faster one."""

    folder: str
    rate: float  # bytes a second, read
    free_bytes: int


def advise(
    findings: Mapping[str, Any],
    needed: float,
    free_memory: int,
    decoded_bytes: int = 0,
    near: Near | None = None,
) -> list[str]:
    """Return sentences about reading at the rate that a run `needed`, in bytes a second; none where it is no trouble.

    The rate is samples a second times bytes of a record. `decoded_bytes` is the size of the whole set as --cache
    keeps it (0: it keeps no such data). Advice begins with the flag to paste, where there is one.
    """
    where = f"{findings['file_system']['type']} at {findings['file_system']['mount']}"
    num_threads, rate = best_of(findings["records"])
    single = findings["records"][min(findings["records"])]
    if findings["cold"] < MOST_COLD:
        return [
            f"the files were in memory, so nothing is known of {where}: ask again when they no longer are"
        ]
    if single >= SPARE * needed:
        return []
    if rate >= SPARE * needed:
        return [
            f"--loader-workers {num_threads}: so many threads read {per_second(rate)} of {where}, one "
            f"{per_second(single)}; the run needs {per_second(needed)}"
        ]
    reason = f"{where} gives {per_second(rate)} ({num_threads} threads), the run needs {per_second(needed)}"
    if findings["bytes"] < SHARE_OF_MEMORY * free_memory:
        whole = size(findings["bytes"])
        reason += f"; the files, {whole}, stay in memory after the first epoch, if nobody else needs it"
    return [f"{_cure(findings, needed, free_memory, decoded_bytes, near)}: {reason}"]


def _cure(
    findings: Mapping[str, Any], needed: float, free_memory: int, decoded_bytes: int, near: Near | None
) -> str:
    """Return what to do about files that are read too slowly."""
    if 0 < decoded_bytes < SHARE_OF_MEMORY * free_memory:
        return f"--cache ram, which takes {size(decoded_bytes)} of {size(free_memory)} free"
    rate = best_of(findings["records"])[1]
    if near is not None and near.rate > rate:
        needed_decoded = needed * decoded_bytes / findings["bytes"]
        if 0 < decoded_bytes < SHARE_OF_DISK * near.free_bytes and near.rate > needed_decoded:
            return f"--cache disk --cache-dir {near.folder}, which reads {per_second(near.rate)}"
        if findings["bytes"] < SHARE_OF_DISK * near.free_bytes:
            return f"copy the files to {near.folder}, which reads {per_second(near.rate)}"
    if best_of(findings["sequential"])[1] > 2 * rate:
        in_order = per_second(best_of(findings["sequential"])[1])
        return f"copy the files to a local disk (in large pieces they are read at {in_order})"
    return f"pack smaller pictures or use a faster disk (the run waits {1 - rate / needed:.0%} of its time)"


def best_of(rates: Mapping[int, float]) -> tuple[int, float]:
    """Return the number of threads that reads fastest, and its rate; fewer threads where more gain under a tenth."""
    fastest = max(rates.values())
    return next((each, rate) for each, rate in sorted(rates.items()) if rate >= 0.9 * fastest)


def in_words(findings: Mapping[str, Any]) -> list[str]:
    """Return the lines that tell what was measured."""
    system = findings["file_system"]
    described = f"{system['type']}{' (over a network)' if system['network'] else ''} at {system['mount']}"
    lines = [
        f"{size(findings['bytes'])} in {findings['files']} file{'s' * (findings['files'] > 1)} on {described}"
    ]
    names = {"records": f"pieces of {size(findings['record_bytes'])} at random", "sequential": "in order"}
    for name, text in names.items():
        rates = ", ".join(f"{per_second(rate)} with {each}" for each, rate in findings[name].items())
        lines.append(f"{text}: {rates} threads")
    if findings["cold"] < 0.95:
        lines.append(f"{1 - findings['cold']:.0%} of it came from memory: the disk itself is slower")
    return lines


def per_second(rate: float) -> str:
    return f"{size(rate)}/s"


def size(num_bytes: float) -> str:
    """Return a number of bytes with three digits, as 1.23 GB."""
    units = ("bytes", "kB", "MB", "GB", "TB")
    power = min(len(units) - 1, max(0, math.floor(math.log10(max(1.0, num_bytes)) / 3)))
    return f"{num_bytes / 1000**power:.3g} {units[power]}"
