"""Inject random faults into many jobs: `python -m tests.faults --faults 200`.

A job has two to four workers, up to two servers, and up to three faults, one after the other. The same --seed draws
the same jobs and faults, and --job 7 runs the seventh alone. With --page the tables of that file (docs/faults.md) are
replaced, those of `--jobs allreduce` and others alone where only these run.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import itertools
import random
import statistics
import tempfile
from pathlib import Path
from typing import Callable, List, Tuple

from tests.faults import samples
from tests.faults.case import DONE_SECONDS, FAULTS, PHASES, WEIGHTS, Case, faults, has_ps_lite, roles
from tests.faults.job import ALONE, KINDS, cluster, result, started
from tests.faults.strike import HUNG, RECOVERED, REFUSED, STOPPED, WRONG, FaultOutcome, strike

MAX_FAULTS = 3  # of a job: it may restart as often
MAX_DELAY_SECONDS, MAX_PAUSE_SECONDS = 0.5, 8.0
BEGIN = {
    "dist_sync": "<!-- from here: make chaos -->\n",
    "allreduce": "<!-- from here: --jobs allreduce -->\n",
    "owners": "<!-- from here: --jobs owners -->\n",
    "held": "<!-- from here: --jobs held -->\n",
    "tables": "<!-- from here: --jobs tables -->\n",
}
END = "<!-- to here -->\n"
Outcomes = List[FaultOutcome]
Shape = Tuple[int, int, str]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults", description="Inject random faults into jobs."
    )
    parser.add_argument(
        "--faults", type=int, default=200, help="a fault whose phase never comes is not counted"
    )
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 3, 4], help="of a job; these in turn")
    parser.add_argument("--servers", type=int, nargs="+", default=[1, 2], help="of a job; these in turn")
    parser.add_argument(
        "--jobs",
        nargs="+",
        choices=list(KINDS),
        default=list(KINDS),
        help="allreduce: without servers; owners: servers move the weights; held: and lend layers to workers; tables: "
        "and have a table's rows",
    )
    parser.add_argument("--at-once", type=int, default=1, help="jobs that run at the same time")
    parser.add_argument("--job", type=int, help="the only one to run of those that are drawn")
    parser.add_argument("--page", type=Path, help="put the tables there")
    asked = parser.parse_args()
    print(f"--seed {asked.seed}", flush=True)
    servers = [
        (count, kind) for kind in asked.jobs for count in ([0] if kind == "allreduce" else asked.servers)
    ]
    shapes = [(workers, *of_servers) for workers, of_servers in itertools.product(asked.workers, servers)]
    jobs = dict(enumerate(draw(asked.seed, asked.faults, shapes), 1))
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        data = samples.data_flags(Path(folder) / "data")
        undisturbed = same_results(shapes, Path(folder), data)
        chosen = {asked.job: jobs[asked.job]} if asked.job else jobs
        found = inject(chosen, Path(folder), data, undisturbed, asked.at_once)
    tables = render(found, asked.seed)
    print(tables, end="")
    if asked.page:
        begin = BEGIN[asked.jobs[0]]
        before, rest = asked.page.read_text().split(begin)
        asked.page.write_text(before + begin + tables + END + rest.partition(END)[2])
    return int(any(outcome.kind in (HUNG, WRONG) for outcome in found))


def draw(seed: int, num_faults: int, shapes: list[Shape]) -> list[list[Case]]:
    """Draw the faults of jobs at random, half of them a little after their phase, none after the exit.

    The jobs take `shapes`, their numbers of workers and servers and their kinds, in turn.
    """
    rng = random.Random(seed)
    jobs: list[list[Case]] = []
    num_left = num_faults
    while num_left:
        shape, number = shapes[len(jobs) % len(shapes)], min(num_left, rng.randint(1, MAX_FAULTS))
        phases = sorted((rng.choice(list(PHASES)) for _ in range(number)), key=list(PHASES).index)
        pauses = [0, *(round(rng.uniform(0, MAX_PAUSE_SECONDS), 2) for _ in phases[1:])]
        jobs.append([_fault(rng, phase, pause, *shape) for phase, pause in zip(phases, pauses)])
        num_left -= number
    return jobs


def _fault(
    rng: random.Random, phase: str, pause: float, num_workers: int, num_servers: int, kind: str
) -> Case:
    role = rng.choice(roles(num_workers, num_servers))
    fault = rng.choice(list(faults(role, has_ps_lite(num_servers, kind))))
    delay = round(rng.choice([0, rng.uniform(0, MAX_DELAY_SECONDS)]), 2)
    delay = 0 if phase == "exit" else delay
    return Case(role, fault, phase, delay, num_workers, num_servers, pause, kind)


def same_results(shapes: list[Shape], folder: Path, data: list[str]) -> dict[str, tuple[object, ...]]:
    """Return the result of one process by kind, which jobs of these numbers of workers and servers have to the bit."""
    alone = {kind: ALONE.get(kind, []) for _, _, kind in shapes}
    expected = {kind: _undisturbed(folder / kind, [*data, *flags]) for kind, flags in alone.items()}
    for shape in shapes:
        if _undisturbed(folder / "-".join(map(str, shape)), [*data, *cluster(*shape)]) != expected[shape[2]]:
            raise SystemExit(
                f"without any fault {shape} workers and servers end with other bits than one process"
            )
    return expected


def _undisturbed(folder: Path, flags: list[str]) -> tuple[object, ...]:
    with started(folder, *flags) as job:
        if job.process.wait(DONE_SECONDS):
            raise SystemExit(f"without any fault: {job.output()}")
    return result(job.out)


def inject(
    jobs: dict[int, list[Case]],
    folder: Path,
    data: list[str],
    undisturbed: dict[str, tuple[object, ...]],
    at_once: int,
) -> Outcomes:
    def one(number: int) -> Outcomes:
        cases = jobs[number]
        outcomes = strike(cases, folder / str(number), data, undisturbed[cases[0].kind])
        for outcome in outcomes:
            print(f"{number:4} {outcome.case}: {outcome.kind}, {outcome.seconds:.1f} s", flush=True)
            if outcome.kind in (HUNG, WRONG):
                print(outcome.output, flush=True)
        return outcomes

    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        return list(itertools.chain(*pool.map(one, jobs)))


def render(found: Outcomes, seed: int) -> str:
    """Tables in Markdown: the outcomes by the size of the job, by role, by fault and by phase."""
    by: dict[str, Callable[[Case], str]] = {
        "workers, servers": lambda each: f"{each.num_workers}, {each.num_servers}{WEIGHTS[each.kind]}",
        "role": lambda each: each.role,
        "fault": lambda each: each.fault,
        "phase": lambda each: each.phase,
    }
    largest = max(each.case.num_workers for each in found), max(each.case.num_servers for each in found)
    order = [*roles(*largest), *FAULTS, *PHASES]
    lines = [f"{len(found)} faults, seed {seed}:"]
    for title, name_of in by.items():
        lines += ["", _row(title, "faults", RECOVERED, STOPPED, REFUSED, HUNG, WRONG, "median seconds")]
        lines += [_row(*["---"] * 8)]
        names = {name_of(each.case) for each in found}
        for name in sorted(names, key=lambda name: (order.index(name) if name in order else 0, name)):
            lines.append(_counts(name, [outcome for outcome in found if name_of(outcome.case) == name]))
        lines.append(_counts("**all**", found))
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
