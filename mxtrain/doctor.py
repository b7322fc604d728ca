"""`python -m mxtrain.doctor`: what this machine can do, what is wrong and what to do about it; `--install` does it.

Owns the command's flags and its exit code; the examination is `probe/`'s.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from mxtrain.core import interrupts

    interrupts.exit_on_signal("mxtrain.doctor")

import json
from pathlib import Path

from mxtrain.config.arguments import Parser
from mxtrain.core import command_name, durable, interrupts, kernels, wheels
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
    if options.measure_bf16:
        bf16_times(Path(options.measure_bf16))
        return
    if options.comm:
        communication(options.json)
        return
    found = facts.examine()
    print(json.dumps(found, indent=2) if options.json else table.of_facts(found), flush=True)
    if not found["trainable"]:
        raise UsageError(f"cannot train here: {found['mxnet']['error']}")


def bf16_times(path: Path) -> None:
    """Write the times of operators in float32 and bfloat16 to `path`, a line for each class as it is found."""
    problem = kernels.bf16_problem()
    if problem:
        raise UsageError(f"--measure-bf16 {path}: --amp bf16 {problem}")
    if not path.parent.is_dir():
        raise UsageError(f"--measure-bf16 {path}: there is no folder {path.parent}")
    from mxtrain.probe import bf16_times

    with interrupts.stopped_by_signal("mxtrain.doctor"):
        measured = bf16_times.measure(lambda line: print(line, flush=True))
    try:
        durable.replace(path, json.dumps(measured, indent=1) + "\n")
    except OSError as error:
        raise durable.cannot_write(path, error) from None
    print(f"written: {path}, for --amp bf16 or --amp auto with --amp-table {path}", flush=True)


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
        "--measure-bf16",
        metavar="FILE",
        help="only measure, for minutes, what pays in bfloat16: for --amp-table FILE",
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
