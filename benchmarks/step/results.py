"""Findings of a net's measurement, in JSON and as numbers to show. Pure functions."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Dict, NamedTuple

from benchmarks.step.multiplications import FLOPS_OF_A_STEP
from benchmarks.step.turns import Peak

FIRST_LOSS_BAR = {"off": 1e-4, "bf16": 1e-2}  # relative difference
FIRST_UPDATE_BAR = {"off": 0.1, "bf16": 0.3}  # of what the first update takes from the loss


class Measured(NamedTuple):
    """One side's steps."""

    seconds: list[float]  # of a step, for each round
    losses: list[float]  # from the first step on
    megabytes: float  # the most that the process has held

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


class Found(NamedTuple):
    """A net in one precision, on both sides. PyTorch's forms that were slow when they began have one round only."""

    samples: int
    unit: str
    parameters: int
    multiplications: int
    ours: Measured
    torch: dict[str, Measured]
    peaks: dict[str, Peak]
    neighbours: float  # the share that other processes had of the CPU time used meanwhile

    @property
    def best_form(self) -> str:
        """The form of PyTorch that is fastest, of those that took part in all rounds."""
        rounds = max(len(each.seconds) for each in self.torch.values())
        in_all = [form for form, each in self.torch.items() if len(each.seconds) == rounds]
        return min(in_all, key=lambda form: self.torch[form].median)

    @property
    def best(self) -> Measured:
        return self.torch[self.best_form]

    @property
    def ratio(self) -> float:
        """The speed of mxtrain, that of PyTorch's best form being 1."""
        return self.best.median / self.ours.median

    @property
    def memory(self) -> float:
        """The memory that mxtrain holds, that of PyTorch's best form being 1."""
        return self.ours.megabytes / self.best.megabytes

    @property
    def gigaflops(self) -> float:
        """The work that mxtrain does a second."""
        return 1e-9 * FLOPS_OF_A_STEP * self.multiplications / self.ours.median

    @property
    def of_peak(self) -> float:
        return self.gigaflops / max(max(peak) for peak in self.peaks.values())


Results = Dict[str, Dict[str, Found]]  # by net and precision


def problems(found: Found, amp: str) -> list[str]:
    """Return why the sides did not do the same work, or did not learn; nothing if they did."""
    said = []
    for form, theirs in found.torch.items():
        first, second = (abs(a - b) for a, b in zip(found.ours.losses, theirs.losses[:2]))
        dropped = abs(found.ours.losses[0] - found.ours.losses[1])
        if not first <= FIRST_LOSS_BAR[amp] * abs(found.ours.losses[0]):
            said.append(f"the first loss of torch, {form}, differs by {first:.1e}")
        elif not second <= FIRST_UPDATE_BAR[amp] * dropped + first:
            said.append(f"the first update of torch, {form}, is another: {second:.1e} of {dropped:.1e}")
    for name, each in {"mxtrain": found.ours, **found.torch}.items():
        if not each.losses[-1] < each.losses[0]:
            said.append(f"{name} does not learn: {each.losses[0]:.4f}, then {each.losses[-1]:.4f}")
    return said


def read(path: Path) -> Results:
    """Return the results that a file holds; none where there is no file."""
    if not path.exists():
        return {}
    return {
        net: {amp: _found(each) for amp, each in by_amp.items()}
        for net, by_amp in json.loads(path.read_text()).items()
    }


def _found(plain: dict[str, object]) -> Found:
    found = Found(**plain)  # type: ignore[arg-type]
    return found._replace(
        ours=Measured(*found.ours),
        torch={form: Measured(*each) for form, each in found.torch.items()},
        peaks={name: Peak(*each) for name, each in found.peaks.items()},
    )


def write(path: Path, results: Results) -> None:
    plain = {net: {amp: found._asdict() for amp, found in each.items()} for net, each in results.items()}
    path.write_text(json.dumps(plain, indent=1) + "\n")
