"""Results as Markdown, and the bars that they meet or miss. Pure functions."""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.step.results import Found, Results

PRECISIONS = {"off": "float32", "bf16": "bf16"}


class Bar(NamedTuple):
    """The least ratio to PyTorch's best form."""

    net: str
    amp: str
    least: float


BARS = (
    Bar("resnet18", "off", 1.05),
    Bar("resnet50", "off", 1.3),
    Bar("mobilenetv2", "off", 1.1),
    Bar("resnet18", "bf16", 1.05),
    Bar("resnet50", "bf16", 1.05),
)
NEVER_SLOWER = "mobilenetv2"  # in bf16 than in float32
MOST_MEMORY = 1.1  # of PyTorch's


def render(results: Results) -> str:
    """Return a line for each net and precision."""
    lines = [
        "| net, batch | precision | mxtrain | torch, its best form | times as fast | memory, MB | times torch's "
        "| GFLOP/s | of the peak |",
        "|---|---|---:|---|---:|---|---:|---:|---:|",
    ]
    lines += [_line(net, amp, found) for net, each in results.items() for amp, found in each.items()]
    return "\n".join(lines)


def _line(net: str, amp: str, found: Found) -> str:
    rates = [f"{found.samples / each.median:,.1f}" for each in (found.ours, found.best)]
    return (
        f"| {net}, {found.samples} {found.unit} | {PRECISIONS[amp]} | {rates[0]} | {rates[1]} {found.best_form} "
        f"| {found.ratio:.2f} | {found.ours.megabytes:.0f}, {found.best.megabytes:.0f} | {found.memory:.2f} "
        f"| {found.gigaflops:.0f} | {found.of_peak:.0%} |"
    )


def render_forms(results: Results) -> str:
    """Return a line for each net and precision with every form of PyTorch."""
    lines = ["| net | precision | torch, samples a second by form |", "|---|---|---|"]
    for net, each in results.items():
        for amp, found in each.items():
            rates = [
                f"{form} {found.samples / measured.median:,.1f}" for form, measured in found.torch.items()
            ]
            lines.append(f"| {net} | {PRECISIONS[amp]} | {', '.join(rates)} |")
    return "\n".join(lines)


def render_peaks(results: Results) -> str:
    """Return what large kernels reached, the best of all runs."""
    lines = ["| GFLOP/s of large kernels | precision | matmul | 3x3 convolution |", "|---|---|---:|---:|"]
    measured = [
        (name, amp, peak)
        for each in results.values()
        for amp, found in each.items()
        for name, peak in found.peaks.items()
    ]
    for key in dict.fromkeys((name, amp) for name, amp, _ in measured):
        matmul, convolution = (
            max(rates) for rates in zip(*(peak for *of, peak in measured if tuple(of) == key))
        )
        lines.append(f"| {key[0]} | {PRECISIONS[key[1]]} | {matmul:.0f} | {convolution:.0f} |")
    return "\n".join(lines)


def render_bars(results: Results) -> tuple[str, bool]:
    """Return a line for each bar of what was measured, and whether all bars there are were measured and are met."""
    judged = [*_speeds(results), *_memory(results)]
    lines = ["| | found | bar | |", "|---|---:|---:|---|"]
    for what, found, bar, met in judged:
        lines.append(f"| {what} | {found} | {bar} | {'met' if met else 'NOT MET'} |")
    return "\n".join(lines), all(met for *_, met in judged)


def _speeds(results: Results) -> list[tuple[str, str, str, bool]]:
    lines = []
    for bar in BARS:
        found = results.get(bar.net, {}).get(bar.amp)
        shown = f"{found.ratio:.2f}" if found else "not measured"
        met = found is not None and found.ratio >= bar.least
        lines.append(
            (f"{bar.net}, {PRECISIONS[bar.amp]}: times as fast as torch", shown, f"{bar.least}", met)
        )
    by_amp = results.get(NEVER_SLOWER, {})
    ratio = by_amp["off"].ours.median / by_amp["bf16"].ours.median if len(by_amp) == len(PRECISIONS) else None
    what = f"{NEVER_SLOWER}: bf16 times as fast as our float32"
    return [
        *lines,
        (what, f"{ratio:.2f}" if ratio else "not measured", "1", ratio is not None and ratio >= 1),
    ]


def _memory(results: Results) -> list[tuple[str, str, str, bool]]:
    return [
        (
            f"{net}, {PRECISIONS[amp]}: peak memory, times torch's",
            f"{found.memory:.2f}",
            f"at most {MOST_MEMORY}",
            found.memory <= MOST_MEMORY,
        )
        for net, each in results.items()
        for amp, found in each.items()
    ]
