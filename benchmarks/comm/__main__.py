"""Time to sum the gradients of resnet50 over two workers on this machine, by mxtrain and others.

    python -m benchmarks.comm --setup      PyTorch in an environment of its own; once
    python -m benchmarks.comm              all of it: some minutes on two quiet cores

Every side moves the same 193 arrays, 102 MB, one OpenMP thread a process, and checks the sums: mxtrain over unix
sockets, as it does where all processes are on one machine, and over TCP, as between hosts; the others over TCP. Its
processes have the environment that the launcher gives them. mxtrain and MXNet's Trainer have one server; gloo has
none, nor has mxtrain's allreduce, through memory that workers share as on one machine, or through sockets as between
hosts; the limit is a program of sockets and one addition, whose array is flat from the beginning. mxtrain's sums are
exact unless its row says otherwise, with all that a step of `fit` does for it: rounding, flags, the next grid; no
backward pass hides any of it. All sides are up at once; in a round each has its turn of a few steps while the others
sleep, and what is shown is the median of the rounds. Exit code 1 unless the bars were measured and are met.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import statistics
import sys
from pathlib import Path
from typing import Callable, Sequence

from benchmarks.comm.measure import Taken, slowest
from benchmarks.harness import environments, groups, parsing, tables
from benchmarks.harness.groups import Process, ProcessGroup
from benchmarks.harness.rounds import in_turns
from benchmarks.harness.tables import Bar
from mxtrain.cluster import unix_sockets
from mxtrain.cluster.gateway.routes import NUMBERS
from mxtrain.launch.plan import MALLOC_ENVIRONMENT

OURS, FAST, OVER_TCP, CODED, ALLREDUCE, OVER_SOCKETS, STOCK, GLOO, LIMIT = (
    "mxtrain",
    "mxtrain, --sums fast",
    "mxtrain over TCP",
    "mxtrain over TCP, --compress 2bit",
    "mxtrain allreduce",
    "mxtrain allreduce over sockets",
    "gluon Trainer",
    "gloo",
    "sockets alone",
)
NUM_WORKERS = 2
SERVE = """
from mxtrain import runtime
mx = runtime.load()
mx.kvstore.kvstore_server.KVStoreServer(mx.kv.create("dist")).run()
"""
BAR = 1.3
EXACT_BAR = 1.1  # times as long as --sums fast
ALLREDUCE_BAR = 1.5  # times as long as gloo


def main() -> int:
    options = _parse()
    if options.setup:
        environments.set_up(options.envs, ["torch"])
        return 0
    torch = environments.pytorch(options.envs, "torch", "comm")
    with contextlib.ExitStack() as stack:
        started = {name: stack.enter_context(start(torch)) for name, start in SIDES.items()}
        turns = {name: lambda group=group: slowest(group.turn()) for name, group in started.items()}
        taken = in_turns(turns, options.rounds, warm_up=1)  # the first goes into starting
        for group in started.values():
            group.end()
    unix_sockets.sweep()
    text, all_met = tables.render_bars(bars(taken))
    print(json.dumps(taken) if options.json else f"{render(taken)}\n\n{text}")
    return 0 if all_met else 1


def _mxnet(side: str, **environment: str) -> ProcessGroup:
    worker, server = (sys.executable, "-m", "benchmarks.comm.mxnet_side", side), (sys.executable, "-c", SERVE)
    return groups.cluster(lambda name: worker if "worker" in name else server, NUM_WORKERS, 1, **environment)


def _allreduce(hosts: Sequence[int]) -> ProcessGroup:
    numbers = json.dumps(random.SystemRandom().sample(NUMBERS, len(hosts)))
    line = [sys.executable, "-m", "benchmarks.comm.allreduce_side"]
    return ProcessGroup(
        [
            Process([*line, rank, numbers, json.dumps([*hosts])], MALLOC_ENVIRONMENT)
            for rank in range(len(hosts))
        ],
        len(hosts),
    )


def _gloo(torch: Path) -> ProcessGroup:
    line, port = [torch, "-m", "benchmarks.comm.torch_side"], groups.free_port()
    ranks = [[*line, rank, NUM_WORKERS, port] for rank in range(NUM_WORKERS)]
    return ProcessGroup([Process(rank, {"GLOO_SOCKET_IFNAME": "lo"}) for rank in ranks], NUM_WORKERS)


def _sockets() -> ProcessGroup:
    line, port = [sys.executable, "-m", "benchmarks.comm.socket_side"], groups.free_port()
    roles = ["server", *["client"] * NUM_WORKERS]
    return ProcessGroup([Process([*line, role, port], {}) for role in roles], NUM_WORKERS)


SIDES: dict[str, Callable[[Path], ProcessGroup]] = {
    OURS: lambda _: _mxnet("exact", DMLC_LOCAL="1", **MALLOC_ENVIRONMENT),
    FAST: lambda _: _mxnet("fast", DMLC_LOCAL="1", **MALLOC_ENVIRONMENT),
    OVER_TCP: lambda _: _mxnet("exact", **MALLOC_ENVIRONMENT),
    CODED: lambda _: _mxnet("2bit", **MALLOC_ENVIRONMENT),
    ALLREDUCE: lambda _: _allreduce([0] * NUM_WORKERS),
    OVER_SOCKETS: lambda _: _allreduce(range(NUM_WORKERS)),
    STOCK: lambda _: _mxnet("stock"),
    GLOO: _gloo,
    LIMIT: lambda _: _sockets(),
}


def speed_up(taken: dict[str, list[Taken]]) -> float:
    """Return how many times as fast as MXNet's Trainer mxtrain makes sums like its own, which are not exact."""
    return _seconds(taken[STOCK]) / _seconds(taken[FAST])


def cost_of_exact(taken: dict[str, list[Taken]]) -> float:
    """Return how many times as long sums take that have the same bits in any order."""
    return _seconds(taken[OURS]) / _seconds(taken[FAST])


def of_gloo(taken: dict[str, list[Taken]]) -> float:
    """Return how many times as long as gloo's sums exact ones take without servers."""
    return _seconds(taken[ALLREDUCE]) / _seconds(taken[GLOO])


def bars(taken: dict[str, list[Taken]]) -> list[Bar]:
    speed, cost, allreduce = speed_up(taken), cost_of_exact(taken), of_gloo(taken)
    return [
        Bar("`--sums fast`, times as fast as gluon Trainer", f"{speed:.2f}", f"{BAR}", speed >= BAR),
        Bar("exact sums, times as long as others", f"{cost:.2f}", f"at most {EXACT_BAR}", cost <= EXACT_BAR),
        Bar(
            "exact sums without servers, times as long as gloo",
            f"{allreduce:.2f}",
            f"at most {ALLREDUCE_BAR}",
            allreduce <= ALLREDUCE_BAR,
        ),
    ]


def render(taken: dict[str, list[Taken]]) -> str:
    rows = []
    for name, rounds in taken.items():
        every = [f"{seconds * 1e3:.0f}" for seconds in sorted(one.seconds for one in rounds)]
        seconds, travelled = _seconds(rounds), [f"{num / 1e6:.1f}" for num in rounds[-1][1:]]
        over_tcp = ", ".join(travelled) if any(rounds[-1][1:]) else "not TCP"
        of_ours = f"{seconds / _seconds(taken[OURS]):.2f}"
        rows.append((name, f"{seconds * 1e3:.0f}", f"{every[0]}, {every[-1]}", of_ours, over_tcp))
    head = ("ms a step", "fastest, slowest round", "of mxtrain's time", "MB over TCP, sent, received")
    return tables.markdown(["", *head], rows)


def _seconds(rounds: list[Taken]) -> float:
    return statistics.median(one.seconds for one in rounds)


def _parse() -> argparse.Namespace:
    parser = parsing.parser("comm", __doc__, rounds=15, has_json=True)
    parsing.add_environments(parser)
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
