"""`launch/ps.sh`, `python -m mxtrain.launch`: one role of a job on this host, or a whole job on this machine.

Parse, then late import, then one call: --help is there at once.
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

from mxtrain.config.arguments import Parser
from mxtrain.core.errors import UsageError, one_line
from mxtrain.launch.fit_flags import add_counts, counted, described

if TYPE_CHECKING:
    from mxtrain.config import Run
    from mxtrain.launch import plan

PROGRAM = "launch/ps.sh"
LOCAL = "local"
ROLES = ("scheduler", "server", "worker")
SCRIPTS = ("ssh", "slurm", "k8s")
ACROSS_HOSTS = (*SCRIPTS, "srun", "reach", "share")


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    # The scripts beside ps.sh come here too, with their own name as the first word.
    program = f"launch/{words[0]}" if words[:1] and words[0] in SCRIPTS else PROGRAM
    return one_line(program, lambda: command(words))


def command(words: list[str]) -> NoReturn:
    cut = words.index("--") if "--" in words else len(words)
    if words[:1] and words[0] in ACROSS_HOSTS:
        raise SystemExit(across_hosts(words[0], words[1:cut], tuple(words[cut + 1 :])))
    given, flags = parser().parse_args(words[:cut]), tuple(words[cut + 1 :])
    raise SystemExit(local(given, flags) if given.what == LOCAL else role(given, flags))


def parser() -> Parser:
    made = Parser(
        prog=PROGRAM,
        usage="%(prog)s scheduler|server|worker --root ADDRESS:PORT -n WORKERS -s SERVERS [--index I] -- FIT FLAGS\n"
        "       %(prog)s local -n WORKERS -s SERVERS -- FIT FLAGS\n"
        "       %(prog)s ssh|slurm|k8s --help",
        description="Start one role of a training job on this host and keep it up, or a whole job on this machine.",
        epilog="After -- come the flags of python -m mxtrain.fit, the same for every role. In place of --root, -n and "
        "-s the variables DMLC_PS_ROOT_URI, DMLC_PS_ROOT_PORT, DMLC_NUM_WORKER and DMLC_NUM_SERVER do.",
        allow_abbrev=False,
    )
    made.add_argument("what", choices=[*ROLES, LOCAL], metavar="scheduler|server|worker|local")
    made.add_argument("--root", help="where the scheduler listens: its ADDRESS:PORT, the same for every role")
    add_counts(made)
    made.add_argument(
        "--index", type=int, help="this is worker or server number I; else the roll call numbers"
    )
    return made


def local(given: argparse.Namespace, flags: tuple[str, ...]) -> int:
    from mxtrain.launch import local

    if given.root is not None or given.index is not None:
        raise UsageError("local finds its own address and numbers; leave --root and --index out")
    return local.run(*described(counted(given, flags), PROGRAM))


def role(given: argparse.Namespace, flags: tuple[str, ...]) -> int:
    """Keep one process up until its job is done, at one address over all its lives."""
    import secrets
    from pathlib import Path

    from mxtrain.launch import plan
    from mxtrain.launch.supervisor import policy, supervise

    run, flags = described(flags, PROGRAM)
    cluster = placed(given, run)
    name = named(given, cluster)
    logs, slot = Path(run.output.out) / "logs", {} if given.index is None else {plan.NODE: name}
    said = {plan.ROOT_FLAG: "--root"} if given.root else {}
    job_id = secrets.token_hex(8)  # the scheduler's is the job's

    def group(num_restarts: int) -> list[plan.Process]:
        # No generation: each host's supervisor counts for itself.
        more = {**slot, **said, plan.JOB_ID: job_id, plan.RESTARTS: str(num_restarts)}
        return [plan.role(cluster, name, plan.fit(flags), logs, **more)]

    return supervise(group, policy(run))


def across_hosts(what: str, words: list[str], flags: tuple[str, ...]) -> int:
    """Each has a parser of its own; reach and share are what the others start, here and there."""
    from mxtrain.launch import host_agent, host_proxy, k8s, slurm, ssh

    if what in ("reach", "share"):
        return host_proxy.reach(words) if what == "reach" else host_agent.live_share()
    if what in ("ssh", "srun"):
        return ssh.launch(words, flags) if what == "ssh" else slurm.launch(words, flags)
    print(k8s.render(words, flags) if what == "k8s" else slurm.render(words, flags), end="")
    return 0


def placed(given: argparse.Namespace, run: Run) -> plan.Cluster:
    """Where the job meets, and how many it is: from the flags here, the environment, or fit's flags."""
    from mxtrain.launch import plan

    root = given.root or ":".join(
        os.environ.get(name, "") for name in ("DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT")
    )
    if root == ":":
        raise UsageError("--root is missing: give the scheduler's ADDRESS:PORT, the same on every host")
    found = re.fullmatch(r"([^:\s]+):(\d{1,5})", root)
    if not found or not 0 < int(found[2]) < 1 << 16:
        raise UsageError(f"--root {root}: give the scheduler's ADDRESS:PORT, as in 10.0.0.5:9091")
    num_workers = number("-n", given.num_workers, "DMLC_NUM_WORKER", run.layout.num_workers)
    num_servers = number("-s", given.num_servers, "DMLC_NUM_SERVER", run.layout.num_servers)
    return plan.Cluster(found[1], int(found[2]), num_workers, num_servers)


def number(flag: str, given: int | None, variable: str, of_fit: int) -> int:
    """A count that all must be told alike; fit's own flag, when left out, is 1 and says nothing."""
    text = os.environ.get(variable, "")
    found = given or (int(text) if text.isdecimal() else 0) or (of_fit if of_fit > 1 else 0)
    if not found:
        raise UsageError(f"{flag} is missing: how many the job has, the same on every host")
    return found


def named(given: argparse.Namespace, cluster: plan.Cluster) -> str:
    """With an index a name that the roll call knows, else one that tells the logs of hosts on one disk apart."""
    if given.index is None:
        return given.what if given.what == ROLES[0] else f"{given.what}-{platform.node()}"
    most = {"server": cluster.num_servers, "worker": cluster.num_workers}.get(given.what, 0)
    if not 0 <= given.index < most:
        raise UsageError(f"--index {given.index}: the job has {most} to number, from 0; or leave it out")
    return f"{given.what}-{given.index}"


if __name__ == "__main__":
    raise SystemExit(main())
