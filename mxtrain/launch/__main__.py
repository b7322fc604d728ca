"""`launch/ps.sh`, `python -m mxtrain.launch`: one role of a job on this host, or a whole job on this machine.

Owns the command line. Parse, then late import, then one call: --help is there at once.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from mxtrain.core import interrupts

    interrupts.exit_on_signal("launch/ps.sh")

import argparse
import os
import platform
import re
import sys
from typing import TYPE_CHECKING, NoReturn, Sequence

from mxtrain.config.flags.arguments import Parser
from mxtrain.core.errors import UsageError, one_line
from mxtrain.launch.fit_flags import add_count_arguments, parse_fit_flags, program, with_counts

if TYPE_CHECKING:
    from mxtrain.config import Run
    from mxtrain.launch import plan

LOCAL = "local"
ROLES = ("scheduler", "server", "worker")
SCRIPTS = ("ssh", "slurm", "k8s")
ACROSS_HOSTS = (*SCRIPTS, "srun", "host-proxy", "host-agent")


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    # The scripts beside ps.sh come here too, with their own name as the first word.
    name = words[0] if words[:1] and words[0] in SCRIPTS else "ps.sh"
    return one_line(program(name), lambda: command(words))


def command(words: list[str]) -> NoReturn:
    """Run the command that `words` describe; what follows -- are the flags of fit."""
    cut = words.index("--") if "--" in words else len(words)
    flags = tuple(words[cut + 1 :])
    if words[:1] and words[0] in ACROSS_HOSTS:
        raise SystemExit(run_across_hosts(words[0], words[1:cut], flags))
    options = parser().parse_args(words[:cut])
    raise SystemExit(run_local(options, flags) if options.what == LOCAL else run_role(options, flags))


def parser() -> Parser:
    made = Parser(
        prog=program("ps.sh"),
        usage="%(prog)s scheduler|server|worker --root ADDRESS:PORT -n WORKERS -s SERVERS [--index I] -- FIT FLAGS\n"
        "       %(prog)s local -n WORKERS -s SERVERS -- FIT FLAGS [PROGRAM.py ARGUMENTS]\n"
        "       %(prog)s ssh|slurm|k8s --help",
        description="Start one role of a training job on this host and keep it up, or a whole job on this machine.",
        epilog="After -- come the flags of python -m mxtrain.fit, the same for every role, "
        "and perhaps a Python program that calls fit(...) itself, as train.py --size 3. In place of --root, -n and "
        "-s the variables DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT, DMLC_NUM_WORKER and DMLC_NUM_SERVER do.",
        allow_abbrev=False,
    )
    made.add_argument("what", choices=[*ROLES, LOCAL], metavar="scheduler|server|worker|local")
    made.add_argument("--root", help="where the scheduler listens: its ADDRESS:PORT, the same for every role")
    add_count_arguments(made)
    made.add_argument(
        "--index", type=int, help="this is worker or server number I; else the rendezvous numbers"
    )
    return made


def run_local(options: argparse.Namespace, flags: tuple[str, ...]) -> int:
    """Run a whole job on this machine."""
    from mxtrain.launch import local

    if options.root is not None or options.index is not None:
        raise UsageError("local finds its own address and numbers; leave --root and --index out")
    return local.launch(*parse_fit_flags(with_counts(options, flags), program("ps.sh")))


def run_role(options: argparse.Namespace, flags: tuple[str, ...]) -> int:
    """Run one process and restart it until its job is done, at one address over all attempts."""
    import secrets
    from pathlib import Path

    from mxtrain.launch import plan
    from mxtrain.launch.supervisor import restart_policy, supervise

    run, flags = parse_fit_flags(flags, program("ps.sh"))
    spec = job_spec(options, run)
    name = process_name(options, spec)
    logs = Path(run.output.out) / "logs"
    constant = {plan.JOB_ID: secrets.token_hex(8)}  # the scheduler's is the job's
    if options.index is not None:
        constant[plan.NODE] = name
    if options.root:
        constant[plan.ROOT_FLAG] = "--root"

    def processes(attempt: int) -> list[plan.ProcessSpec]:
        # Restarts and no generation: each host's supervisor counts for itself.
        environment = {**constant, plan.RESTARTS: str(attempt)}
        return [plan.node_process(spec, name, plan.fit_command(flags), logs, **environment)]

    return supervise(processes, restart_policy(run, flags, is_whole=False))


def run_across_hosts(what: str, words: list[str], flags: tuple[str, ...]) -> int:
    """Run a launcher over hosts, with a parser of its own, or a host proxy or agent that one of them starts."""
    from mxtrain.launch import host_agent, host_proxy, k8s, slurm, ssh

    if what in ("host-proxy", "host-agent"):
        return host_proxy.run_on_host(words) if what == "host-proxy" else host_agent.run_host_plan()
    if what in ("ssh", "srun"):
        return ssh.launch(words, flags) if what == "ssh" else slurm.launch(words, flags)
    print(k8s.render(words, flags) if what == "k8s" else slurm.render(words, flags), end="")
    return 0


def job_spec(options: argparse.Namespace, run: Run) -> plan.JobSpec:
    """The job's address and counts: from the flags here, the environment, or the flags of fit."""
    from mxtrain.config.components import stores
    from mxtrain.launch import plan

    root = options.root or ":".join(
        os.environ.get(name, "") for name in ("DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT")
    )
    if root == ":":
        raise UsageError("--root is missing: give the scheduler's ADDRESS:PORT, the same on every host")
    match = re.fullmatch(r"([^:\s]+):(\d{1,5})", root)
    if not match or not 0 < int(match[2]) < 1 << 16:
        raise UsageError(f"--root {root}: give the scheduler's ADDRESS:PORT, as in 10.0.0.5:9091")
    num_workers = node_count("-n", options.num_workers, "DMLC_NUM_WORKER", run.layout.num_workers)
    num_servers, store = 0, run.layout.kvstore
    if stores.has_servers(store):
        num_servers = node_count("-s", options.num_servers, "DMLC_NUM_SERVER", run.layout.num_servers)
    elif options.num_servers or options.what == "server":
        refused = "server" if options.what == "server" else f"-s {options.num_servers}"
        raise UsageError(f"{refused}: --kvstore {store} has no servers; leave it out")
    return plan.JobSpec(match[1], int(match[2]), num_workers, num_servers)


def node_count(flag: str, own_flag: int | None, variable: str, of_fit: int) -> int:
    """A count that has to be the same on all hosts; fit's own flag is 1 when left out, which says nothing."""
    text = os.environ.get(variable, "")
    count = own_flag or (int(text) if text.isdecimal() else 0) or (of_fit if of_fit > 1 else 0)
    if not count:
        raise UsageError(f"{flag} is missing: how many the job has, the same on every host")
    return count


def process_name(options: argparse.Namespace, spec: plan.JobSpec) -> str:
    """The name that the rendezvous knows, from --index; else one that tells the logs of hosts on one disk apart."""
    if options.index is None:
        return options.what if options.what == ROLES[0] else f"{options.what}-{platform.node()}"
    count = {"server": spec.num_servers, "worker": spec.num_workers}.get(options.what, 0)
    if not 0 <= options.index < count:
        raise UsageError(f"--index {options.index}: the job has {count} to number, from 0; or leave it out")
    return f"{options.what}-{options.index}"


if __name__ == "__main__":
    raise SystemExit(main())
