"""The processes of both sides, started, warmed up and asked for their turns."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.harness import processes
from benchmarks.harness.groups import Process, ProcessGroup
from benchmarks.step.nets import Net
from benchmarks.step.turns import Peak, Turn

OURS = "mxtrain"
PLAIN, CHANNELS_LAST, COMPILED = "contiguous", "channels_last", "compiled, channels_last"
DEADLINE_SECONDS = 120


class Side:
    """A process that makes steps in its turns, and what they came to; leaving it ends the process."""

    def __init__(self, line: list[object], environment: dict[str, str]):
        self.group = ProcessGroup([Process(line, environment)], num_workers=1, is_one_thread=False)
        self.seconds: list[float] = []  # a step, a number for each turn but the first
        self.losses: list[float] = []

    def __enter__(self) -> Side:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self.group.__exit__()

    def warm_up(self) -> None:
        self._turn()

    def measure(self) -> None:
        self.seconds.append(self._turn().seconds)

    def _turn(self) -> Turn:
        (answer,) = self.group.turn()
        self.last = Turn(*answer)
        self.losses += self.last.losses
        return self.last


def ours(name: str, amp: str, weights: Path) -> Side:
    """Return mxtrain's side, which writes its first weights for the others."""
    return Side([sys.executable, "-m", "benchmarks.step.mxnet_side", name, amp, weights], {})


def theirs(torch: Path, name: str, amp: str, form: str, weights: Path) -> Side:
    line: list[object] = [torch, "-m", "benchmarks.step.torch_side", name, amp, form, weights]
    return Side(line, compiled_before(torch))


def compiled_before(torch: Path) -> dict[str, str]:
    """Return the settings by which torch.compile keeps what it has compiled: a second run need not wait for it."""
    return {"TORCHINDUCTOR_CACHE_DIR": str(torch.parents[1] / "compiled")}


def forms(net: Net) -> list[str]:
    """Return the ways in which PyTorch can compute the net; layouts are for pictures.

    What is compiled has channels last; contiguous arrays were as fast there. Gradients of tables are sparse, for which
    torch.compile has none.
    """
    if net.ids:
        return [PLAIN]
    return [PLAIN, "compiled"] if net.vocabulary else [PLAIN, CHANNELS_LAST, COMPILED]


def peaks(torch: Path, amp: str) -> dict[str, Peak]:
    """Return what this machine reaches in large kernels of either side, one after the other."""
    lines = {
        OURS: [sys.executable, "-m", "benchmarks.step.mxnet_side", "peak", amp],
        "torch": [torch, "-m", "benchmarks.step.torch_side", "peak", amp],
    }
    return {
        name: Peak(*processes.run(*line, deadline_seconds=DEADLINE_SECONDS).answer)
        for name, line in lines.items()
    }
