"""Time to sum the gradients of resnet50 over two hosts: through their gateways, and by ps-lite as it is.

    python -m benchmarks.comm.hosts      as root: the hosts are network namespaces of this machine

Two workers, one on each host, and a server beside the first. Encrypted, ps-lite listens at unix sockets alone, and all
between the hosts goes through one port of each; direct is ps-lite's own TCP, in the clear and open to all. Both move
the same 102 MB with exact sums, over a cable of 1 Gbit and over one without a limit, where both hosts share this
machine's cores and memory. In a round each side has its turn; what is shown is the median of the rounds. Exit code 1
unless the bars are met.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import statistics
import sys
from typing import Iterator

from benchmarks.comm.measure import slowest
from benchmarks.harness import parsing, tables
from benchmarks.harness.groups import Process, ProcessGroup
from benchmarks.harness.rounds import in_turns
from benchmarks.harness.tables import Bar
from mxtrain.cluster.gateway.routes import NUMBERS
from mxtrain.launch.plan import MALLOC_ENVIRONMENT
from tests.support.hosts.lan import lan, slow_down
from tests.support.hosts.two_hosts import NamespaceHost

PLACES = {"scheduler": 0, "server-0": 0, "worker-0": 0, "worker-1": 1}  # and its host
SERVE = """
from mxtrain import runtime
mx = runtime.load()
mx.kvstore.kvstore_server.KVStoreServer(mx.kv.create("dist")).run()
"""
MEGABITS, PORT = 1000, 9091
BARS = {f"{MEGABITS} Mbit": 1.3, "no limit": 2.5}  # times as long as direct


def main() -> int:
    options = parsing.parser("comm.hosts", __doc__, rounds=7, has_json=True).parse_args()
    taken = {cable: _measure(cable, options.rounds) for cable in BARS}
    text, all_met = tables.render_bars(bars(taken))
    print(json.dumps(taken) if options.json else f"{render(taken)}\n\n{text}")
    return 0 if all_met else 1


def _measure(cable: str, rounds: int) -> dict[str, list[float]]:
    """Return the seconds of a step in each round, of both sides."""
    with lan(2) as hosts, contextlib.ExitStack() as stack:
        if cable != "no limit":
            for host in hosts:
                slow_down(host, MEGABITS)
        sides = {
            "direct": stack.enter_context(_direct(hosts)),
            "encrypted": stack.enter_context(_encrypted(hosts)),
        }
        turns = {name: lambda group=group: slowest(group.turn()).seconds for name, group in sides.items()}
        return in_turns(turns, rounds, warm_up=1, to_and_fro=True)


def _direct(hosts: list[NamespaceHost]) -> ProcessGroup:
    root = {"DMLC_PS_ROOT_URI": hosts[0].address, "DMLC_PS_ROOT_PORT": str(PORT - 1)}
    return _group(
        {
            name: (hosts[place], {**root, "DMLC_NODE_HOST": hosts[place].address})
            for name, place in PLACES.items()
        }
    )


@contextlib.contextmanager
def _encrypted(hosts: list[NamespaceHost]) -> Iterator[ProcessGroup]:
    numbers = dict(zip(PLACES, secrets.SystemRandom().sample(NUMBERS, len(PLACES))))
    root = {
        "DMLC_PS_ROOT_URI": "127.0.0.1",
        "DMLC_PS_ROOT_PORT": str(numbers["scheduler"]),
        "DMLC_LOCAL": "1",
    }
    places = {
        name: (hosts[place], {**root, "DMLC_NODE_HOST": "127.0.0.1", "PORT": str(numbers[name])})
        for name, place in PLACES.items()
    }
    secret, gateways = secrets.token_hex(16), []
    for place, host in enumerate(hosts):
        here = [numbers[name] for name, other in PLACES.items() if other == place]
        elsewhere = [
            (numbers[name], hosts[other].address, PORT) for name, other in PLACES.items() if other != place
        ]
        routes = json.dumps({"here": here, "elsewhere": elsewhere})
        line = [sys.executable, "-m", "benchmarks.comm.gateway_side", host.address, PORT, secret, routes]
        gateways.append(Process(host.inside(*map(str, line)), {}))
    with ProcessGroup(gateways, 0), _group(places) as group:
        yield group


def _group(places: dict[str, tuple[NamespaceHost, dict[str, str]]]) -> ProcessGroup:
    worker = (sys.executable, "-m", "benchmarks.comm.mxnet_side", "exact")
    common = {"DMLC_NUM_WORKER": "2", "DMLC_NUM_SERVER": "1", **MALLOC_ENVIRONMENT}
    processes = []
    for name, (host, environment) in places.items():
        line = worker if name.startswith("worker") else (sys.executable, "-c", SERVE)
        own = {"DMLC_ROLE": name.partition("-")[0], "MXTRAIN_NODE": name}
        processes.append(Process(host.inside(*line), {**common, **environment, **own}))
    return ProcessGroup(processes, 2)


def ratio(sides: dict[str, list[float]]) -> float:
    """Return how many times as long a step takes encrypted."""
    return statistics.median(sides["encrypted"]) / statistics.median(sides["direct"])


def bars(taken: dict[str, dict[str, list[float]]]) -> list[Bar]:
    found = {cable: ratio(sides) for cable, sides in taken.items()}
    return [
        Bar(
            f"encrypted, times as long as direct: {cable}",
            f"{found[cable]:.2f}",
            f"at most {bar}",
            found[cable] <= bar,
        )
        for cable, bar in BARS.items()
    ]


def render(taken: dict[str, dict[str, list[float]]]) -> str:
    rows = [
        [
            cable,
            *(f"{statistics.median(sides[side]) * 1e3:.0f}" for side in ("direct", "encrypted")),
            f"{ratio(sides):.2f}",
        ]
        for cable, sides in taken.items()
    ]
    return tables.markdown(["cable", "direct, ms a step", "encrypted, ms a step", "ratio"], rows, "lr")


if __name__ == "__main__":
    sys.exit(main())
