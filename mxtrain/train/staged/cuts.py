"""Cuts of a net into stages, by the time and the bytes of its parts: plain numbers in, plain numbers out."""

from __future__ import annotations

from typing import Callable, List, Sequence, Tuple

Cut = Tuple[float, List[int]]  # the largest cost, and where stages end
NO_CUT: Cut = (float("inf"), [])

# Stages that take so much longer than the fastest cut allows are as good, where one of them then holds less.
SLACK = 1.05


def best_ends(seconds: Sequence[float], num_bytes: Sequence[int], num_stages: int) -> list[int]:
    """Return where stages end so that the slowest one is fast, and of such cuts one whose largest stage is small.

    Args:
        seconds: The time of each part.
        num_bytes: What a device holds of each part.
        num_stages: How many stages there are; no more than parts.

    Returns:
        The number of parts before the end of each stage but the last.
    """
    ends = _smallest_maximum(num_stages, len(seconds), lambda start, end: sum(seconds[start:end]))
    slowest = max(sum(seconds[start:end]) for start, end in spans(ends, len(seconds)))

    def size(start: int, end: int) -> float:
        is_slow = sum(seconds[start:end]) > SLACK * slowest
        return float("inf") if is_slow else sum(num_bytes[start:end])

    return _smallest_maximum(num_stages, len(seconds), size)


def spans(ends: Sequence[int], num_parts: int) -> list[tuple[int, int]]:
    """Return the first part of each stage, and the one after its last."""
    return list(zip([0, *ends], [*ends, num_parts]))


def _smallest_maximum(num_stages: int, num_parts: int, cost: Callable[[int, int], float]) -> list[int]:
    """Return the ends for which the largest cost of a stage is smallest; each has a part at least."""
    # Of the first n parts in one stage; then in one more, and so on.
    best: list[Cut] = [NO_CUT, *((cost(0, end), []) for end in range(1, num_parts + 1))]
    for _ in range(1, num_stages):
        before = best
        best = [
            min(
                (
                    (max(before[start][0], cost(start, end)), [*before[start][1], start])
                    for start in range(1, end)
                ),
                default=NO_CUT,
            )
            for end in range(num_parts + 1)
        ]
    return best[num_parts][1]
