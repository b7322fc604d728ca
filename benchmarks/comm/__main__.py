"""Time to sum the gradients of resnet50 over two workers on this machine, by mxtrain and others.

    python -m benchmarks.comm --setup      PyTorch in an environment of its own; once
    python -m benchmarks.comm              all of it: some minutes on two quiet cores

Every side moves the same 193 arrays, 102 MB, one OpenMP thread a process, and checks the sums: mxtrain over unix
sockets, as it does where all processes are on one machine, and over TCP, as between hosts; the others over TCP. Its
processes have the environment that the launcher gives them.
mxtrain and MXNet's Trainer have one server; gloo has none; the limit is a program of sockets and one addition, whose
array is flat from the beginning. mxtrain's sums are exact unless its row says otherwise, with all that a step of `fit`
does for it: rounding, flags, the next grid; no backward pass hides any of it. All sides are up at once; in a round
each has its turn of a few steps while the others sleep, and what is shown is the median of the rounds. Exit code 1
unless the bars were measured and are met.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
from pathlib import Path
from typing import Callable

from benchmarks import commands
from benchmarks.comm import processes
from benchmarks.comm.measure import Taken, slowest
from benchmarks.comm.processes import Process, ProcessGroup
from benchmarks.loader import environments
from mxtrain.cluster import unix_sockets
from mxtrain.launch.plan import MALLOC_ENVIRONMENT

OURS, FAST, OVER_TCP, CODED, STOCK, GLOO, LIMIT = (
    "mxtrain",
    "mxtrain, --sums fast",
    "mxtrain over TCP",
    "mxtrain over TCP, --compress 2bit",
    "gluon Trainer",
    "gloo",
    "sockets alone",
)
NUM_WORKERS = 2
BAR = 1.3
EXACT_BAR = 1.1  # times as long as --sums fast


def main() -> int:
    options = _parse()
    if options.setup:
        environments.set_up(options.envs, ["torch"])
        return 0
    torch = environments.interpreter(options.envs, "torch")
    if torch is None:
        raise SystemExit("gloo's side needs an environment of its own: run --setup first")
    taken: dict[str, list[Taken]] = {name: [] for name in SIDES}
    with contextlib.ExitStack() as stack:
        groups = {}
        for name, start in SIDES.items():
            groups[name] = stack.enter_context(start(torch))
            groups[name].turn()  # the first goes into starting
        for _ in range(options.rounds):
            for name, group in groups.items():
                taken[name].append(slowest(group.turn()))
        for group in groups.values():
            group.end()
    unix_sockets.sweep()
    if options.json:
        print(json.dumps(taken))
    else:
        print(render(taken))
    return 0 if is_met(taken) else 1


def _mxnet(side: str, **environment: str) -> ProcessGroup:
    line = [sys.executable, "-m", "benchmarks.comm.mxnet_side", side]
    return processes.with_servers(line, NUM_WORKERS, num_servers=1, environment=environment)


def _gloo(torch: Path) -> ProcessGroup:
    line, port = [torch, "-m", "benchmarks.comm.torch_side"], processes.free_port()
    ranks = [[*line, rank, NUM_WORKERS, port] for rank in range(NUM_WORKERS)]
    return ProcessGroup([Process(rank, {"GLOO_SOCKET_IFNAME": "lo"}) for rank in ranks], NUM_WORKERS)


def _sockets() -> ProcessGroup:
    line, port = [sys.executable, "-m", "benchmarks.comm.socket_side"], processes.free_port()
    roles = ["server", *["client"] * NUM_WORKERS]
    return ProcessGroup([Process([*line, role, port], {}) for role in roles], NUM_WORKERS)


SIDES: dict[str, Callable[[Path], ProcessGroup]] = {
    OURS: lambda _: _mxnet("exact", DMLC_LOCAL="1", **MALLOC_ENVIRONMENT),
    FAST: lambda _: _mxnet("fast", DMLC_LOCAL="1", **MALLOC_ENVIRONMENT),
    OVER_TCP: lambda _: _mxnet("exact", **MALLOC_ENVIRONMENT),
    CODED: lambda _: _mxnet("2bit", **MALLOC_ENVIRONMENT),
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


def is_met(taken: dict[str, list[Taken]]) -> bool:
    return speed_up(taken) >= BAR and cost_of_exact(taken) <= EXACT_BAR


def render(taken: dict[str, list[Taken]]) -> str:
    lines = ["| | ms a step | fastest, slowest round | of mxtrain's time | MB over TCP, sent, received |"]
    lines.append("|---|---|---|---|---|")
    for name, rounds in taken.items():
        every = [f"{seconds * 1e3:.0f}" for seconds in sorted(one.seconds for one in rounds)]
        seconds, travelled = _seconds(rounds), [f"{num / 1e6:.1f}" for num in rounds[-1][1:]]
        lines.append(
            f"| {name} | {seconds * 1e3:.0f} | {every[0]}, {every[-1]} | {seconds / _seconds(taken[OURS]):.2f} "
            f"| {', '.join(travelled) if any(rounds[-1][1:]) else 'not TCP'} |"
        )
    met = "met" if speed_up(taken) >= BAR else "MISSED"
    lines.append(f"\n--sums fast is {speed_up(taken):.2f} times as fast as gluon Trainer; bar {BAR}: {met}")
    met = "met" if cost_of_exact(taken) <= EXACT_BAR else "MISSED"
    lines.append(
        f"exact sums take {cost_of_exact(taken):.2f} times as long as others; bar {EXACT_BAR}: {met}"
    )
    return "\n".join(lines)


def _seconds(rounds: list[Taken]) -> float:
    return statistics.median(one.seconds for one in rounds)


def _parse() -> argparse.Namespace:
    parser = commands.parser("comm", __doc__)
    parser.add_argument("--setup", action="store_true", help="make the environment that is missing, and end")
    parser.add_argument("--envs", type=Path, default=environments.FOLDER, help="where it is")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true", help="every round's numbers")
    options = parser.parse_args()
    options.envs = options.envs.resolve()
    return options


if __name__ == "__main__":
    raise SystemExit(main())
