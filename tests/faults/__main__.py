"""Inject random faults into many jobs: `python -m tests.faults --faults 100`.

The same --seed draws the same faults. With --page the tables of that file (docs/faults.md) are replaced.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import random
import statistics
import tempfile
from pathlib import Path
from typing import Callable, List, Tuple

from tests.faults import case, samples
from tests.faults.case import (
    FAULTS,
    HUNG,
    PHASES,
    RECOVERED,
    REFUSED,
    STOPPED,
    WRONG,
    Case,
    FaultOutcome,
    roles,
)
from tests.faults.job import CLUSTER, result, started

MAX_DELAY_SECONDS = 0.5
BEGIN, END = "<!-- from here: make chaos -->\n", "<!-- to here -->\n"
Outcomes = List[Tuple[Case, FaultOutcome]]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults", description="Inject random faults into jobs."
    )
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--workers", type=int, default=2, help="of each job, two or more")
    parser.add_argument("--at-once", type=int, default=1, help="jobs that run at the same time")
    parser.add_argument("--page", type=Path, help="put the table there")
    asked = parser.parse_args()
    print(f"--seed {asked.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        cases = draw(asked.seed, asked.faults, asked.workers)
        found = inject(cases, Path(folder), asked.at_once)
    table = render(found, asked.seed)
    print(table, end="")
    if asked.page:
        before, rest = asked.page.read_text().split(BEGIN)
        asked.page.write_text(before + BEGIN + table + END + rest.split(END)[1])
    return int(any(outcome.kind in (HUNG, WRONG) for _, outcome in found))


def draw(seed: int, num_faults: int, num_workers: int) -> list[Case]:
    """Draw cases at random, half of them a little after their phase; none after the exit."""
    rng = random.Random(seed)
    names = roles(num_workers), list(FAULTS), list(PHASES)
    cases = [Case(*map(rng.choice, names)) for _ in range(num_faults)]
    late = [round(rng.choice([0, rng.uniform(0, MAX_DELAY_SECONDS)]), 2) for _ in cases]
    return [
        dataclasses.replace(each, delay_seconds=0 if each.phase == "exit" else delay, num_workers=num_workers)
        for each, delay in zip(cases, late)
    ]


def inject(cases: list[Case], folder: Path, at_once: int) -> Outcomes:
    data = samples.data_flags(folder / "data")
    with started(folder / "undisturbed", *data, *CLUSTER) as job:
        if job.process.wait(case.DONE_SECONDS):
            raise SystemExit(f"without any fault: {job.output()}")
    undisturbed = result(job.out)

    def one(number: int, each: Case) -> tuple[Case, FaultOutcome]:
        outcome = case.run_case(each, folder / str(number), data, undisturbed)
        print(f"{number:4} {each}: {outcome.kind}, {outcome.seconds:.1f} s", flush=True)
        if outcome.kind in (HUNG, WRONG):
            print(outcome.output, flush=True)
        return each, outcome

    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(one, range(1, len(cases) + 1), cases))


def render(found: Outcomes, seed: int) -> str:
    """Three tables in Markdown: the outcomes by role, by fault and by phase."""
    by: dict[str, Callable[[Case], str]] = {
        "role": lambda each: each.role,
        "fault": lambda each: each.fault,
        "phase": lambda each: each.phase,
    }
    order = [*roles(found[0][0].num_workers), *FAULTS, *PHASES]
    lines = [f"{len(found)} faults, seed {seed}:"]
    for title, name_of in by.items():
        lines += ["", _row(title, "faults", RECOVERED, STOPPED, REFUSED, HUNG, WRONG, "median seconds")]
        lines += [_row(*["---"] * 8)]
        for name in sorted({name_of(each) for each, _ in found}, key=order.index):
            lines.append(_counts(name, [outcome for each, outcome in found if name_of(each) == name]))
        lines.append(_counts("**all**", [outcome for _, outcome in found]))
    return "\n".join(lines) + "\n"


def _counts(name: str, outcomes: list[FaultOutcome]) -> str:
    kinds = [outcome.kind for outcome in outcomes]
    seconds = [outcome.seconds for outcome in outcomes if outcome.kind == RECOVERED]
    median = f"{statistics.median(seconds):.1f}" if seconds else ""
    return _row(
        name, len(kinds), *(kinds.count(kind) for kind in (RECOVERED, STOPPED, REFUSED, HUNG, WRONG)), median
    )


def _row(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    raise SystemExit(main())
