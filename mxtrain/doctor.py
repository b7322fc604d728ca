"""`python -m mxtrain.doctor`: what this machine can do, what is wrong and what to do about it; `--install` does it.

Owns the command's flags and its exit code; the examination is `probe/`'s.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from mxtrain.core import interrupts

    interrupts.exit_on_signal("mxtrain.doctor")

import json

from mxtrain.config.arguments import Parser
from mxtrain.core import command_name, interrupts, wheels
from mxtrain.core.errors import UsageError, one_line
from mxtrain.probe import facts, install, table


def main(argv: list[str] | None = None) -> int:
    return one_line("mxtrain.doctor", lambda: doctor(argv))


def doctor(argv: list[str] | None = None) -> None:
    """Parse the flags and print the examination; UsageError where training cannot work."""
    options = parser().parse_args(argv)
    if options.install:
        say(install.install(options.install, say))
        return
    if options.comm:
        communication(options.json)
        return
    found = facts.examine()
    print(json.dumps(found, indent=2) if options.json else table.of_facts(found), flush=True)
    if not found["trainable"]:
        raise UsageError(f"cannot train here: {found['mxnet']['error']}")


def parser() -> Parser:
    """Return the parser of this command's flags."""
    flags = Parser(
        prog=command_name.typed("python -m mxtrain.doctor"),
        description="Examine this machine and environment. Exits with 0 where mxtrain can train, 2 where not.",
    )
    flags.add_argument("--json", action="store_true", help="print all facts as one JSON object")
    flags.add_argument(
        "--comm", action="store_true", help="only measure, for up to a minute, what a dist_* store costs here"
    )
    flags.add_argument(
        "--install",
        choices=wheels.ENGINES,
        help="only install MXNet for CPUs or NVIDIA GPUs, and GluonCV, into this environment, and train a step",
    )
    return flags


def say(sentence: str) -> None:
    print(f"mxtrain.doctor: {sentence}", flush=True)


def communication(as_json: bool) -> None:
    """Print the cost of sums over two workers and what to set; UsageError where not even one job worked."""
    from mxtrain.probe import advice, jobs

    if not facts.ports()["loopback"]:
        raise UsageError("no loopback port can be bound here, so no dist_* store works")
    with interrupts.stopped_by_signal("mxtrain.doctor"):
        measured = jobs.measure()
    measured["recommendations"] = advice.advise(measured)
    print(json.dumps(measured, indent=2) if as_json else table.align(advice.rows(measured)), flush=True)
    if all(job["error"] for job in measured["jobs"]):
        raise UsageError(f"no cluster of two workers came up: {measured['jobs'][0]['error']}")


if __name__ == "__main__":
    raise SystemExit(main())
