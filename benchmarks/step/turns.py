"""A side's process: it makes steps in its turns, and says how long they took and what they came to."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Callable, Iterable, NamedTuple

from benchmarks.harness.groups import answer_turns

TURN_SECONDS = 1.5  # at least; a step is not cut short
WARM_UP_STEPS = 2  # a first turn compiles in its first step, and finds its memory by the end of the second


class Turn(NamedTuple):
    """The line that a side's process prints after each line that it is given."""

    seconds: float  # a step
    losses: list[float]  # of each step, before its update
    megabytes: float  # the most that the process has held so far
    parameters: int
    multiplications: int  # of a forward pass; 0 from a side that does not count


def take_turns(step: Callable[[], float], parameters: int, multiplications: int = 0) -> None:
    """Make steps for each line of stdin, until it ends."""
    at_least = iter([WARM_UP_STEPS])

    def turn() -> Turn:
        seconds, losses = _steps(step, next(at_least, 1))
        return Turn(seconds, losses, peak_megabytes(), parameters, multiplications)

    answer_turns(turn)


def _steps(step: Callable[[], float], at_least: int) -> tuple[float, list[float]]:
    losses: list[float] = []
    started = time.perf_counter()
    while len(losses) < at_least or time.perf_counter() - started < TURN_SECONDS:
        losses.append(step())
    return (time.perf_counter() - started) / len(losses), losses


def peak_megabytes() -> float:
    """Return the most memory that this process has held at once, its resident set."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))


def best_rate(call: Callable[[], object], multiplications: int, repeats: int = 5) -> float:
    """Return the GFLOP/s of the fastest of some calls, after one to warm up. `call` waits for its result."""
    call()
    return 2e-9 * multiplications / min(_seconds(call) for _ in range(repeats))


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


class Peak(NamedTuple):
    """GFLOP/s of large kernels on an idle machine."""

    matmul: float
    convolution: float


# What is multiplied for them: square matrices, and a 3x3 convolution as in the middle of a resnet.
MATRIX = 2048
IMAGES, CHANNELS, SIDE = 16, 256, 28
MATMUL_MULTIPLICATIONS = MATRIX**3
CONVOLUTION_MULTIPLICATIONS = IMAGES * SIDE**2 * CHANNELS**2 * 9


def print_peak(matmul: Callable[[], object], convolution: Callable[[], object]) -> None:
    print(
        json.dumps(
            Peak(
                best_rate(matmul, MATMUL_MULTIPLICATIONS),
                best_rate(convolution, CONVOLUTION_MULTIPLICATIONS),
            )
        )
    )


def largest(peaks: Iterable[Peak]) -> float:
    return max(max(peak) for peak in peaks)
