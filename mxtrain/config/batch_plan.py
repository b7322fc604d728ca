"""The batch plan: how devices, replicas and micro-batches share a global batch, as arithmetic.

A global step is an ordered list of micro-batches; workers, devices and accumulation only decide which replica computes
which, so none of them moves the loss curve.
"""

from __future__ import annotations

import dataclasses
import math

from mxtrain.config import Run
from mxtrain.core.errors import UsageError

# Without --micro-batch: parts of at most 32 samples; and four of them, so that workers have something to share, where
# each then has 16, which is as few as a BatchNorm should see.
LARGEST_DEFAULT_MICRO_BATCH, SHARES, SMALLEST_SHARE = 32, 4, 16
MAX_DEVICES = 64


@dataclasses.dataclass(frozen=True)
class BatchPlan:
    """The cut of a global batch into micro-batches; the last one may be shorter."""

    batch_size: int
    micro_batch: int
    num_micro_batches: int
    num_devices: int  # of each worker; those that hold a net together, by --stages, are one
    num_workers: int
    accumulate: int

    @property
    def num_replicas(self) -> int:
        """The number of devices of all workers."""
        return self.num_devices * self.num_workers

    def positions(self, num_micro_batches: int, worker: int) -> list[int]:
        """Return which of a step's micro-batches the worker of rank `worker` computes; replicas take turns."""
        return [p for p in range(num_micro_batches) if p // self.num_devices % self.num_workers == worker]

    def shares(self) -> list[int]:
        """Return how many of a whole step's micro-batches each worker computes."""
        return [len(self.positions(self.num_micro_batches, worker)) for worker in range(self.num_workers)]

    def __str__(self) -> str:
        even = self.micro_batch * self.num_micro_batches == self.batch_size
        cut = f"{self.num_micro_batches} micro-batches of {self.micro_batch}" + (
            "" if even else " (last one shorter)"
        )
        where = f"over {self.num_replicas} replicas, accumulate {self.accumulate}"
        return f"global batch {self.batch_size} = {cut} {where}{self._idle()}"

    def _idle(self) -> str:
        """Return what the plan says of replicas without a micro-batch: their number does not change the cut."""
        num_idle = self.num_replicas - self.num_micro_batches
        if num_idle <= 0:
            return ""
        flag = f"--micro-batch {self.batch_size // self.num_replicas}"
        if self.batch_size < self.num_replicas:
            flag = f"a --batch-size of {self.num_replicas} or more"
        return f"; {num_idle} of them compute nothing: {flag} gives each its part"


def parse_devices(text: str) -> tuple[tuple[str, int], ...]:
    """Parse --devices: 'cpu:0,1' is (('cpu', 0), ('cpu', 1)), 'cpu' alone is (('cpu', 0),)."""
    device_type, _, numbers = text.partition(":")
    parts = [part.strip() for part in numbers.split(",")] if numbers else ["0"]
    # cpu:0,cpu:1 says the same at more length.
    parts = [part[len(device_type) + 1 :] if part.startswith(device_type + ":") else part for part in parts]
    if device_type not in ("cpu", "gpu") or not all(part.isdecimal() for part in parts):
        raise UsageError(f"--devices {text}: expected cpu, cpu:0,1 or gpu:0,1")
    found = tuple((device_type, int(part)) for part in parts)
    if any(index >= MAX_DEVICES for _, index in found):
        raise UsageError(f"--devices {text}: numbers go from 0 to {MAX_DEVICES - 1}")
    if len(set(found)) < len(found):
        raise UsageError(f"--devices {text}: names a device twice; name each once")
    return found


def default_micro_batch(batch_size: int) -> int:
    """Return the size of a micro-batch that follows from the batch alone, whatever the mapping."""
    least = min(SHARES, batch_size // SMALLEST_SHARE)
    return math.ceil(batch_size / max(least, math.ceil(batch_size / LARGEST_DEFAULT_MICRO_BATCH)))


def first_default_micro_batch(batch_size: int) -> int:
    """Return the default of versions whose checkpoints do not tell their micro-batch: parts of at most 32."""
    return math.ceil(batch_size / math.ceil(batch_size / LARGEST_DEFAULT_MICRO_BATCH))


def of_run(run: Run) -> BatchPlan:
    """Return the plan of a run; UsageError, with numbers that fit, where its flags contradict each other."""
    batch_size, micro_batch, accumulate = run.optim.batch_size, run.optim.micro_batch, run.optim.accumulate
    num_devices, num_workers = len(parse_devices(run.layout.devices)), run.layout.num_workers
    num_devices = max(1, num_devices // run.layout.stages)
    num_replicas = num_devices * num_workers
    if not micro_batch:
        places = accumulate * num_replicas
        micro_batch = math.ceil(batch_size / places) if places else default_micro_batch(batch_size)
    if micro_batch > batch_size:
        raise UsageError(
            f"--micro-batch {micro_batch} is more than --batch-size {batch_size}; give {batch_size} or less"
        )
    num_micro_batches = math.ceil(batch_size / micro_batch)
    derived = math.ceil(num_micro_batches / num_replicas)
    if accumulate and accumulate != derived:
        product = f"{micro_batch} x {accumulate} x {num_replicas} replicas"
        # Without a --micro-batch the cut, and so the number, is another once --accumulate is left out.
        instead = f" (it is {derived})" if run.optim.micro_batch else ""
        raise UsageError(
            f"--batch-size {batch_size} is not --micro-batch x --accumulate x replicas ({product}); "
            f"leave --accumulate out{instead} or give --batch-size {micro_batch * accumulate * num_replicas}"
        )
    return BatchPlan(batch_size, micro_batch, num_micro_batches, num_devices, num_workers, derived)
