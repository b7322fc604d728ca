"""Speed-up by a second worker: one worker against two of `dist_sync` and of `allreduce`, a core each, in rounds.

    python -m benchmarks.scale --write docs/scaling.md      about 8 minutes on two quiet cores

One worker, two at once that know nothing of each other, two that train together over a server and two that do so
without one are all up, and take turns of a few steps. Each worker has one core and one OpenMP thread; the server and
the scheduler have no core of their own, so what they use is taken from the workers. Every second step of two together
does not send before the backward pass has ended. Exit code 1 if the bar was measured and is missed.

    python -m benchmarks.scale --paper --megabytes 102 --step-seconds 0.3 --gbit 10      the model, with your numbers
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import statistics
import sys
from typing import Mapping

from benchmarks.harness import parsing, tables
from benchmarks.harness.tables import Bar
from benchmarks.scale import render, sides
from benchmarks.scale.model import Hosts, Work
from benchmarks.scale.nets import MEASURED, NETS
from benchmarks.scale.results import Rounds, read, waits
from benchmarks.scale.sides import ALONE, APART, SIDES, WITH_SERVER, WITHOUT

BAR_NET, BAR = "resnet50", 0.85


def main() -> int:
    options = _parse()
    if options.paper:
        work = Work(
            options.megabytes * 1e6, options.step_seconds, options.hideable, options.jitter, num_buckets=25
        )
        hosts = Hosts(options.gbit * 1e9 / 8, options.adding * 1e9)
        print(render.of_work(work, hosts))
        return 0
    found = {}
    for net in options.nets:
        found[net] = measure(net, options.rounds)
        shown = ", ".join(f"{store} {rounds.efficiency(True):.0%}" for store, rounds in found[net].items())
        print(f"{net}: {shown}", file=sys.stderr, flush=True)
    bars = bars_of(found)
    shown_bars, are_met = tables.render_bars(bars)
    tables.write(
        options.write, "scale", "\n\n".join([*([shown_bars] if bars else []), render.everything(found)])
    )
    return 0 if are_met else 1


def bars_of(found: Mapping[str, Mapping[str, Rounds]]) -> list[Bar]:
    """Return the bars of the net that has some, one for each store, if it was measured."""
    if BAR_NET not in found:
        return []
    bars = []
    for store, rounds in found[BAR_NET].items():
        efficiency = rounds.efficiency(True)
        what = f"{BAR_NET} over `{store}`, efficiency of two workers"
        bars.append(Bar(what, f"{efficiency:.0%}", f"{BAR:.0%}", efficiency >= BAR))
    return bars


def measure(net: str, num_rounds: int) -> dict[str, Rounds]:
    """Return the rounds by the store of those who train together; the others' are the same for each store."""
    rounds = Rounds()
    found = {
        store: dataclasses.replace(rounds, together=[], server_cpu_seconds=[], timeline=[])
        for store in (WITH_SERVER, WITHOUT)
    }
    with contextlib.ExitStack() as stack:
        groups = {name: stack.enter_context(start(net)) for name, start in SIDES.items()}
        server = groups[WITH_SERVER].children[sides.SERVER].pid
        for group in groups.values():
            group.turn()  # the first goes into starting
        for _ in range(num_rounds):
            (_, alone), *_ = map(read, groups[ALONE].turn())
            rounds.alone.append([each.seconds for each in alone])
            rounds.hideable += [each.computed[-1] - each.computed[0] for each in alone]
            apart = [steps for _, steps in map(read, groups[APART].turn())]
            rounds.apart.append([statistics.mean(each.seconds for each in steps) for steps in zip(*apart)])
            before = sides.cpu_seconds(server)
            num_steps = _together(groups[WITH_SERVER], found[WITH_SERVER])
            found[WITH_SERVER].server_cpu_seconds.append((sides.cpu_seconds(server) - before) / num_steps)
            _together(groups[WITHOUT], found[WITHOUT])
        for group in groups.values():
            group.end()
    return found


def _together(group: sides.ProcessGroup, rounds: Rounds) -> int:
    """Take a turn of those who train together, and return its number of steps."""
    answers = [*map(read, group.turn())]
    workers = [steps for _, steps in answers]
    rounds.together.append(waits(workers))
    late = next(each for each in reversed(workers[0]) if each.hides)
    rounds.num_bytes, rounds.num_buckets = answers[0][0], len(late.summed)
    rounds.timeline = list(zip(late.computed, late.summed))
    return len(workers[0])


def _parse() -> argparse.Namespace:
    parser = parsing.parser("scale", __doc__, rounds=5)
    parsing.add_page(parser)
    parser.add_argument("--nets", nargs="+", choices=NETS, default=MEASURED)
    parser.add_argument("--paper", action="store_true", help="no measuring: the model alone, of what follows")
    parser.add_argument("--megabytes", type=float, default=102, help="of a worker's gradients")
    parser.add_argument("--step-seconds", type=float, default=0.3, help="one worker's, alone")
    parser.add_argument("--hideable", type=float, default=0.5, help="share of a step with gradients coming")
    parser.add_argument(
        "--jitter", type=float, default=0.01, help="standard deviation of a step over its mean"
    )
    parser.add_argument("--gbit", type=float, default=10, help="of each host's network")
    parser.add_argument("--adding", type=float, default=1, help="GB a second that a server adds")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
