"""`python -m mxtrain.doctor`: what this machine can do, what is wrong and what to do about it; `--install` does it.

With flags of fit, as in `doctor --train t.rec --model resnet18_v1b`, the same about that run. Owns the command's flags
and its exit code; the examinations are in this folder's other modules.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from mxtrain.core import interrupts

    interrupts.exit_on_signal("mxtrain.doctor")

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Sequence

from mxtrain import config
from mxtrain.config.flags.arguments import Parser, png_path
from mxtrain.core import command_name, durable, interrupts
from mxtrain.core.errors import UsageError, one_line
from mxtrain.core.system import kernels, wheels
from mxtrain.doctor.machine import fact_table, facts, install

LEAST_RATE_STEPS = 20


def main(argv: list[str] | None = None) -> int:
    return one_line("mxtrain.doctor", lambda: doctor(argv))


def doctor(argv: list[str] | None = None) -> None:
    """Parse the flags and print the examination; UsageError where training cannot work."""
    words = sys.argv[1:] if argv is None else list(argv)
    if any(word.partition("=")[0] == "--hosts" for word in words):
        hosts(words)
        return
    options, of_fit = split(words)
    if of_fit or options.only:
        examine_run(options, of_fit)
        return
    if options.install:
        say(install.install(options.install, say))
        return
    if options.measure_bf16:
        bf16_times(Path(options.measure_bf16))
        return
    if options.comm:
        communication(options.json)
        return
    findings = facts.examine()
    print(json.dumps(findings, indent=2) if options.json else fact_table.of_facts(findings), flush=True)
    if not findings["trainable"]:
        raise UsageError(f"cannot train here: {findings['mxnet']['error']}")


def split(words: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Return doctor's own flags, parsed, and the flags of fit among `words`, as they are."""
    own = parser()
    options, rest = argparse.ArgumentParser.parse_known_args(own, words)
    flags = [word.partition("=")[0] for word in rest if word.startswith("--")]
    if rest and not {*config.flag_names()}.intersection(flags):
        own.parse_args(rest)  # refuses them
    return options, rest


def examine_run(options: argparse.Namespace, of_fit: Sequence[str]) -> None:
    """Print the examination of the run that flags of fit describe."""
    for flag in ("install", "measure_bf16", "comm"):
        if getattr(options, flag):
            raise UsageError(
                f"--{flag.replace('_', '-')} is about this machine alone; leave the flags of a run out"
            )
    from mxtrain.doctor.run import run_doctor

    if options.rate_steps < LEAST_RATE_STEPS:
        raise UsageError(f"--rate-steps {options.rate_steps}: give {LEAST_RATE_STEPS} or more")
    if not options.seconds > 0:
        raise UsageError(f"--seconds {options.seconds:g}: give more than 0")
    limits = (options.seconds, options.memory, options.rate_steps, options.rate_plot)
    doctor_options = run_doctor.DoctorOptions(run_doctor.chosen(options.only), *limits)
    run = config.parse(list(of_fit), command_name.typed("python -m mxtrain.doctor"))
    with interrupts.stopped_by_signal("mxtrain.doctor"):
        findings = run_doctor.examine(run, doctor_options)
    text = (
        json.dumps(run_doctor.as_json(findings), indent=2)
        if options.json
        else fact_table.align(findings["rows"])
    )
    print(text, flush=True)


def bf16_times(path: Path) -> None:
    """Write the times of operators in float32 and bfloat16 to `path`, a line for each class as it is found."""
    problem = kernels.bf16_problem()
    if problem:
        raise UsageError(f"--measure-bf16 {path}: --amp bf16 {problem}")
    if not path.parent.is_dir():
        raise UsageError(f"--measure-bf16 {path}: there is no folder {path.parent}")
    from mxtrain.doctor.machine import bf16_times

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
        description="Examine this machine and environment: exits with 0 where mxtrain can train, 2 where not. With "
        "flags of fit, --train and --model for instance, examine that run: what bounds it, and what to change.",
        allow_abbrev=False,
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
    flags.add_argument(
        "--hosts",
        metavar="HOSTS",
        help="only examine these hosts and the network between them: a,b,c, a host file, or slurm; --hosts --help",
    )
    of_run = flags.add_argument_group("a run", "with flags of fit, or --config")
    of_run.add_argument(
        "--only",
        default="",
        metavar="PARTS",
        help="what to examine, joined by commas: memory | data | compute | comm | micro-batch | "
        "rate | gradients | overfit; left out: the first four",
    )
    of_run.add_argument(
        "--seconds",
        type=float,
        default=60.0,
        help="for measuring, besides the starts of processes; default 60",
    )
    of_run.add_argument(
        "--memory",
        type=num_bytes,
        default=0,
        help="what --only micro-batch may use, as in 4G; left out: 80%% of what is free",
    )
    of_run.add_argument(
        "--rate-steps",
        type=int,
        default=120,
        help="steps of --only rate, at most; default 120",
        metavar="STEPS",
    )
    of_run.add_argument("--rate-plot", type=png_path, metavar="PNG", help="draw the losses of --only rate")
    return flags


def num_bytes(text: str) -> int:
    """Return the bytes that a text such as 4G, 1.5g or 800M says."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT])(?:i?B)?", text, re.IGNORECASE)
    if not found:
        raise argparse.ArgumentTypeError(f"'{text}' is no size; give 4G or 800M")
    return int(float(found[1]) * 1024 ** ("KMGT".index(found[2].upper()) + 1))


def hosts(words: Sequence[str]) -> None:
    """Print the examination of a cluster's hosts; UsageError where one of them does not answer to the end."""
    from mxtrain.doctor.cluster import cluster_advice, cluster_command

    if {"--help", "-h"}.intersection(words):
        words = ["--help"]
    options = cluster_command.parser().parse_args(words)
    with interrupts.stopped_by_signal("mxtrain.doctor"):
        findings = cluster_command.examine(
            options, lambda what: print(f"mxtrain.doctor: asking for {what}", file=sys.stderr, flush=True)
        )
    findings["recommendations"] = cluster_advice.advise(findings)
    print(
        json.dumps(findings, indent=2) if options.json else fact_table.align(cluster_advice.rows(findings)),
        flush=True,
    )
    failed = [host["host"] for host in findings["hosts"] if "error" in host]
    if failed:
        raise UsageError(
            f"{len(failed)} of {len(findings['hosts'])} hosts did not answer to the end: {', '.join(failed)}"
        )


def say(sentence: str) -> None:
    print(f"mxtrain.doctor: {sentence}", flush=True)


def communication(as_json: bool) -> None:
    """Print the cost of sums over two workers and what to set; UsageError where not even one job worked."""
    from mxtrain.doctor.cluster import store_advice, sum_jobs

    if not facts.ports()["loopback"]:
        raise UsageError("no loopback port can be bound here, so no dist_* store works")
    with interrupts.stopped_by_signal("mxtrain.doctor"):
        measured = sum_jobs.measure()
    measured["recommendations"] = store_advice.advise(measured)
    print(
        json.dumps(measured, indent=2) if as_json else fact_table.align(store_advice.rows(measured)),
        flush=True,
    )
    if all(job["error"] for job in measured["jobs"]):
        raise UsageError(f"no cluster of two workers came up: {measured['jobs'][0]['error']}")


if __name__ == "__main__":
    raise SystemExit(main())
