"""Writing the tables of docs/scaling.md."""

from __future__ import annotations

import dataclasses
import statistics
from typing import Callable, Mapping

from benchmarks.harness.tables import markdown
from benchmarks.scale.model import Hosts, Work, servers_needed, step
from benchmarks.scale.results import ADDING, Rounds
from benchmarks.scale.sides import WITH_SERVER, WITHOUT

GBIT = 10
FASTER = 20  # what a worker might be with a GPU in place of one core
WORKERS = (8, 64, 256)
BUCKETS_SHOWN = 5


def everything(found: Mapping[str, Mapping[str, Rounds]]) -> str:
    """Return all tables, of the rounds of each net by store."""
    with_server = {net: by_store[WITH_SERVER] for net, by_store in found.items()}
    sides = {
        f"{net}, {store}": rounds for net, by_store in found.items() for store, rounds in by_store.items()
    }
    timelines = [timeline(name, rounds) for name, rounds in with_server.items()]
    return "\n\n".join(
        [
            "### Measured: two workers of one core",
            measured(sides),
            f"### Measured: when gradients and sums are there, over `{WITH_SERVER}`",
            *timelines,
            "### On paper: to 256 workers",
            paper(with_server),
        ]
    )


def measured(found: Mapping[str, Rounds]) -> str:
    rows: list[tuple[str, Callable[[Rounds], str]]] = [
        ("MB of gradients", lambda r: f"{r.num_bytes / 1e6:.0f}"),
        ("ms a step, one worker", lambda r: ms(r.seconds_alone)),
        ("ms a step, two together", lambda r: ms(r.median("seconds", True))),
        ("**efficiency of two**", lambda r: f"**{r.efficiency(True):.0%}**"),
        ("efficiency, nothing hidden", lambda r: f"{r.efficiency(False):.0%}"),
        ("efficiency against two at once, each alone", lambda r: f"{r.efficiency(True, of_apart=True):.0%}"),
        ("ms from the last gradient to the last sum", lambda r: ms(r.median("exposed", True))),
        ("the same, nothing hidden", lambda r: ms(r.median("exposed", False))),
        ("share of the sums' time that is hidden", lambda r: f"{r.hidden:.0%}"),
        ("CPU ms of the server a step", _server_ms),
    ]
    return markdown(["", *found], ([name, *map(of, found.values())] for name, of in rows), "lr")


def _server_ms(rounds: Rounds) -> str:
    return ms(statistics.median(rounds.server_cpu_seconds)) if rounds.server_cpu_seconds else "no server"


def timeline(name: str, rounds: Rounds) -> str:
    """Return a table of some of a net's buckets, the first and the last among them."""
    last = len(rounds.timeline) - 1
    shown = sorted({round(part * last / (BUCKETS_SHOWN - 1)) for part in range(BUCKETS_SHOWN)})
    columns = [(f"{number + 1}", *map(ms, rounds.timeline[number])) for number in shown]
    heads = ("bucket", "its gradients are computed", "its sum is there")
    head, *rows = ([head, *row] for head, row in zip(heads, zip(*columns)))
    return f"{name}, ms since the step's graph was handed to the engine:\n\n{markdown(head, rows, 'lr')}"


HEAD = (
    "one server",
    "servers needed",
    "efficiency with them",
    "what costs most",
    f"without, over `{WITHOUT}`",
)


def paper(found: Mapping[str, Rounds], gbit: float = GBIT) -> str:
    rows, hosts = [], Hosts(gbit * 1e9 / 8, ADDING)
    for name, rounds in found.items():
        for faster in (1, FASTER):
            work = dataclasses.replace(rounds.work(), seconds=rounds.seconds_alone / faster)
            what = name if faster == 1 else f"{name}, computing {faster} times as fast"
            rows += [row(f"{what}, {count}", work, hosts, count) for count in WORKERS]
    return markdown(["net, workers", *HEAD], rows, "lrrrlr")


def of_work(work: Work, hosts: Hosts) -> str:
    rows = [row(str(2**power), work, hosts, 2**power) for power in range(1, 9)]
    return markdown(["workers", *HEAD], rows, "lrrrlr")


def row(name: str, work: Work, hosts: Hosts, num_workers: int) -> list[object]:
    needed = servers_needed(work, hosts, num_workers)
    one, best, without = (step(work, hosts, num_workers, count) for count in (1, needed, 0))
    return [
        *(name, f"{one.efficiency:.0%}", needed, f"{best.efficiency:.0%}", best.limit),
        f"{without.efficiency:.0%}",
    ]


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:.0f}"
