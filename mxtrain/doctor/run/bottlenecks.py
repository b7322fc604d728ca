"""The part of a run that bounds it, and the flags that would speed it up, from measured rates. Pure.

A flag is advised only where it is faster beyond the spread of both measurements, and where the part that it speeds up
is the one that the run waits for.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Sequence

from mxtrain.doctor.run.rates import Rate, is_faster, rounded

NAMES = {"data": "data-bound", "compute": "compute-bound", "comm": "communication-bound"}


AGAIN = "measure again while less else runs here, or with more --seconds"


class Variant(NamedTuple):
    """The rate of one part of a run with other flags."""

    part: str
    flags: str  # to paste
    rate: Rate
    remark: str = ""  # what else it changes


class Bound(NamedTuple):
    """The name of the part that bounds a run, None where two are level; and a sentence with its numbers."""

    part: str | None
    sentence: str


class Advice(NamedTuple):
    """Flags to paste, how many times as fast they make the run, and a sentence with both numbers."""

    flags: str
    factor: float
    sentence: str


def find(parts: Mapping[str, Rate], unit: str) -> Bound:
    """Return the slowest of a run's parts, each measured alone, by its name."""
    rates = ", ".join(f"{name} {value}" for name, value in parts.items())
    (slowest, rate), *others = sorted(parts.items(), key=lambda each: each[1].median)
    if not others:
        return Bound(slowest, f"{rates} {unit}/s; nothing else was measured")
    if any(value.is_noise for value in parts.values()):
        return Bound(None, f"{rates} {unit}/s: that is noise; {AGAIN}")
    second, other = others[0]
    if not is_faster(other, rate):
        return Bound(None, f"{slowest} and {second} are level: {rates} {unit}/s")
    could = {"data": "data could feed", "compute": "compute could take", "comm": "sums could keep up with"}[
        second
    ]
    factor = rounded(other.median / rate.median)
    return Bound(slowest, f"{NAMES[slowest]}: {rates} {unit}/s; {could} {factor} times that")


def together(parts: Mapping[str, Rate], step: Rate, waiting: float) -> str:
    """Return what becomes of the parts in a real step, which share the cores."""
    slowest = min(parts.values(), key=lambda rate: rate.median)
    share = f"{100 * waiting:.0f}% of its time waiting for data"
    if not is_faster(slowest, step):
        return share
    lost = 100 * (1 - step.median / slowest.median)
    return f"{share}; {lost:.0f}% slower than its slowest part alone, as loader and net share the cores"


def advise(parts: Mapping[str, Rate], variants: Sequence[Variant], unit: str) -> list[Advice]:
    """Return the best variant of each part that bounds the run; the one that helps most comes first."""
    bound = find(parts, unit).part if parts else None
    advised = []
    for part, rate in parts.items():
        others = [other for name, other in parts.items() if name != part]
        better = [each for each in variants if each.part == part and is_faster(each.rate, rate)]
        if not better or bound not in (None, part):
            continue
        best = max(better, key=lambda each: each.rate.median)
        before = min(each.median for each in (rate, *others))
        after = min(each.median for each in (best.rate, *others))
        limit = "" if after == best.rate.median else f", of which {rounded(after)} are of use"
        remark = f"; {best.remark}" if best.remark else ""
        sentence = f"{best.flags}: {part} {best.rate} {unit}/s instead of {rate}{limit}{remark}"
        advised.append(Advice(best.flags, after / before, sentence))
    return sorted(advised, key=lambda advice: -advice.factor)
