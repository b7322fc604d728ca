"""Results as Markdown, and the bars that they meet or miss. Pure functions."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.harness import tables
from benchmarks.harness.tables import Bar, markdown
from benchmarks.step.results import Found, Results

PRECISIONS = {"off": "float32", "bf16": "bf16"}


class Least(NamedTuple):
    """The least ratio to PyTorch's best form."""

    net: str
    amp: str
    ratio: float


BARS = (
    Least("resnet18", "off", 1.05),
    Least("resnet50", "off", 1.3),
    Least("mobilenetv2", "off", 1.1),
    Least("resnet18", "bf16", 1.05),
    Least("resnet50", "bf16", 1.05),
)
EVERY = 1.0  # of every other net that was measured
NEVER_SLOWER = "mobilenetv2"  # in bf16 than in float32
MOST_MEMORY = 1.2  # of PyTorch's


def render(results: Results) -> str:
    """Return a line for each net and precision."""
    head = (
        "net, batch",
        "precision",
        "mxtrain",
        "torch, its best form",
        "times as fast",
        "memory, MB",
        "times torch's",
    )
    rows = [_row(net, amp, found) for net, each in results.items() for amp, found in each.items()]
    return markdown([*head, "GFLOP/s", "of the peak"], rows, "llrlrlr")


def _row(net: str, amp: str, found: Found) -> list[str]:
    ours, theirs = (f"{found.samples / each.median:,.1f}" for each in (found.ours, found.best))
    memory = f"{found.ours.megabytes:.0f}, {found.best.megabytes:.0f}"
    work = (f"{found.memory:.2f}", f"{found.gigaflops:.0f}", f"{found.of_peak:.0%}")
    what = (f"{net}, {found.samples} {found.unit}", PRECISIONS[amp])
    return [*what, ours, f"{theirs} {found.best_form}", f"{found.ratio:.2f}", memory, *work]


def render_forms(results: Results) -> str:
    """Return a line for each net and precision with every form of PyTorch."""
    rows = [
        (
            net,
            PRECISIONS[amp],
            ", ".join(f"{form} {found.samples / one.median:,.1f}" for form, one in found.torch.items()),
        )
        for net, each in results.items()
        for amp, found in each.items()
    ]
    return markdown(["net", "precision", "torch, samples a second by form"], rows)


def render_peaks(results: Results) -> str:
    """Return what large kernels reached, the best of all runs."""
    rows = []
    measured = [
        (name, amp, peak)
        for each in results.values()
        for amp, found in each.items()
        for name, peak in found.peaks.items()
    ]
    for key in dict.fromkeys((name, amp) for name, amp, _ in measured):
        best = (max(rates) for rates in zip(*(peak for *of, peak in measured if tuple(of) == key)))
        rows.append([key[0], PRECISIONS[key[1]], *(f"{rate:.0f}" for rate in best)])
    return markdown(["GFLOP/s of large kernels", "precision", "matmul", "3x3 convolution"], rows, "llrr")


def render_bars(results: Results) -> tuple[str, bool]:
    """Return a line for each bar of what was measured, and whether all bars there are were measured and are met."""
    return tables.render_bars([*_speeds(results), *_memory(results)])


def _speeds(results: Results) -> list[Bar]:
    bars = []
    known = {(net, amp) for net, amp, _ in BARS}
    measured = [(net, amp) for net, each in results.items() for amp in each]
    others = [Least(net, amp, EVERY) for net, amp in measured if (net, amp) not in known]
    for net, amp, least in (*BARS, *others):
        found, what = results.get(net, {}).get(amp), f"{net}, {PRECISIONS[amp]}: times as fast as torch"
        bars.append(
            Bar(what, f"{found.ratio:.2f}", f"{least}", found.ratio >= least)
            if found
            else Bar(what, None, f"{least}")
        )
    by_amp, what = results.get(NEVER_SLOWER, {}), f"{NEVER_SLOWER}: bf16 times as fast as our float32"
    if len(by_amp) < len(PRECISIONS):
        return [*bars, Bar(what, None, "1")]
    ratio = by_amp["off"].ours.median / by_amp["bf16"].ours.median
    return [*bars, Bar(what, f"{ratio:.2f}", "1", ratio >= 1)]


def _memory(results: Results) -> list[Bar]:
    return [
        Bar(
            f"{net}, {PRECISIONS[amp]}: peak memory, times torch's",
            f"{found.memory:.2f}",
            f"at most {MOST_MEMORY}",
            found.memory <= MOST_MEMORY,
        )
        for net, each in results.items()
        for amp, found in each.items()
    ]
