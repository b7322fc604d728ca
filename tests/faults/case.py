"""One fault: which process of which job is hit, by what and when.

Owns the faults and the phases, which are recognised from outside, by what a job has written so far. What becomes of a
job that is hit is `strike.py`'s.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
import signal
import threading
from typing import Callable, List, Tuple, Union

from mxtrain.launch.attempt import is_stopped
from tests.faults.job import NUM_STEPS, STEPS_PER_EPOCH, SUPERVISOR, FaultJob, cluster
from tests.support.hosts import ps_lite_messages
from tests.support.hosts.ps_lite_messages import Address
from tests.support.runs import has_step, is_writing

REFUSED_SECONDS = 30  # from the fault until the job has ended with an error
DONE_SECONDS = 150  # from the fault until it has ended well, with all the work that it still had to do

IsDue = Callable[
    [FaultJob, int, float], bool
]  # from the job, the process, the seconds since the injection began
Injection = Union[signal.Signals, Callable[[FaultJob, int], None]]
Injections = List[Tuple[IsDue, Injection]]


def roles(num_workers: int, num_servers: int = 1) -> list[str]:
    servers = [f"server-{number}" for number in range(num_servers)]
    return ["scheduler", *servers, *(f"worker-{number}" for number in range(num_workers)), SUPERVISOR]


def after(seconds: float) -> IsDue:
    return lambda job, pid, passed_seconds: passed_seconds >= seconds


def is_last(job: FaultJob, pid: int, passed_seconds: float) -> bool:
    """True when all processes that are left, the supervisor among them, are frozen."""
    return all(map(is_stopped, job.traces.pids()))


def listens(job: FaultJob, pid: int, passed_seconds: float) -> bool:
    """True when ps-lite of the process takes messages."""
    return _address(pid) is not None


def message(send: Callable[[Address], None]) -> Injections:
    """A message of a stranger to ps-lite, which takes a second; the process may end meanwhile."""

    def send_it(pid: int) -> None:
        node = _address(pid)
        if node is not None:
            with contextlib.suppress(OSError, AssertionError, ValueError):
                send(node)

    def inject(job: FaultJob, pid: int) -> None:
        threading.Thread(target=send_it, args=(pid,), daemon=True).start()

    return [(listens, inject)]


def _address(pid: int) -> Address | None:
    with contextlib.suppress(OSError):  # it has ended
        return ps_lite_messages.address(pid)
    return None


SIGNALS: dict[str, Injections] = {
    "SIGKILL": [(after(0), signal.SIGKILL)],
    "SIGTERM": [(after(0), signal.SIGTERM)],
    "frozen": [(after(0), signal.SIGSTOP)],
    # Shorter and longer than --silence-timeout.
    "frozen for 0.7 s": [(after(0), signal.SIGSTOP), (after(0.7), signal.SIGCONT)],
    "frozen for 4 s": [(after(0), signal.SIGSTOP), (after(4), signal.SIGCONT)],
}
# To jobs over TCP: a unix socket loses its name when all are connected.
MESSAGES: dict[str, Injections] = {
    "forged TERMINATE": message(ps_lite_messages.send_terminate),
    "random bytes": message(lambda node: ps_lite_messages.send_random_bytes(node, seed=0)),
    "forged pickle": message(lambda node: ps_lite_messages.send_command(node, pickle.dumps(print, 0))),
}
# A process of another job that wants the place of this one.
STRAY: dict[str, Injections] = {"stray": [(after(0), FaultJob.start_stray)]}
FAULTS: dict[str, Injections] = {**SIGNALS, **MESSAGES, **STRAY}
# No process ends a supervisor that stays frozen, nor a worker that is frozen too, which only the supervisor would end.
# So it is thawed when no process runs any more.
SUPERVISOR_FAULTS = {**SIGNALS, "frozen": [(after(0), signal.SIGSTOP), (is_last, signal.SIGCONT)]}


def _in_evaluation(job: FaultJob, role: str) -> bool:
    """True in the second evaluation: its checkpoint is there, its score is not."""
    step = 2 * STEPS_PER_EPOCH
    return (job.out / "checkpoints" / f"step-{step:08d}").exists() and not job.is_scored(step)


PHASES: dict[str, Callable[[FaultJob, str], object]] = {
    "start": lambda job, role: job.pid(role),
    "rendezvous": lambda job, role: "global batch" in job.logs(),
    "first step": lambda job, role: (job.out / "metrics.jsonl").exists(),
    "mid-epoch": lambda job, role: has_step(job.out, STEPS_PER_EPOCH + 3),
    "evaluation": _in_evaluation,
    "checkpoint": lambda job, role: has_step(job.out, 2) and is_writing(job.out),
    "exit": lambda job, role: job.is_scored(NUM_STEPS),
}


# What a job's servers do with weights, in words.
WEIGHTS = {
    "dist_sync": "",
    "allreduce": "",
    "owners": " that own weights",
    "held": " that lend layers",
    "tables": " that own rows",
}


def has_ps_lite(num_servers: int, kind: str) -> bool:
    """Return whether sums of such a job travel through ps-lite's servers."""
    return num_servers > 0 and kind == "dist_sync"


@dataclasses.dataclass(frozen=True)
class Case:
    """A fault of one process, `delay_seconds` after a phase is reached.

    Where it is not the job's first fault, the phase is looked for `pause_seconds` after the one before.
    """

    role: str
    fault: str
    phase: str
    delay_seconds: float = 0.0
    num_workers: int = 2
    num_servers: int = 1
    pause_seconds: float = 0.0
    kind: str = "dist_sync"  # of `KINDS`

    def __str__(self) -> str:
        early = f"{self.pause_seconds:.2f} s later " if self.pause_seconds else ""
        late = f" + {self.delay_seconds:.2f} s" if self.delay_seconds else ""
        servers = f" and {self.num_servers} servers" if self.num_servers != 1 else ""
        servers += WEIGHTS[self.kind]
        several = f", {self.num_workers} workers{servers}" if servers or self.num_workers > 2 else ""
        return f"{early}{self.role} {self.fault}, {self.phase}{late}{several}"

    @property
    def cluster(self) -> list[str]:
        """The flags of its job."""
        return cluster(self.num_workers, self.num_servers, self.kind)

    @property
    def injections(self) -> Injections:
        """What happens to its process, and when."""
        return list(faults(self.role, self.has_ps_lite)[self.fault])

    @property
    def has_ps_lite(self) -> bool:
        """True where sums travel through ps-lite's servers."""
        return has_ps_lite(self.num_servers, self.kind)

    def is_reached(self, job: FaultJob) -> bool:
        """True in its phase, while its process is there."""
        return bool(PHASES[self.phase](job, self.role) and job.pid(self.role))


def faults(role: str, has_ps_lite: bool = True) -> dict[str, Injections]:
    """The faults that may strike a role: a supervisor has no place, and messages of strangers go to ps-lite alone."""
    if role == SUPERVISOR:
        return SUPERVISOR_FAULTS
    return FAULTS if has_ps_lite else {**SIGNALS, **STRAY}


MATRIX = [Case(role, fault, phase) for role in roles(2) for fault in SIGNALS for phase in PHASES]
