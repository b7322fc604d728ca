"""Who computes what: devices, replicas and micro-batches as arithmetic.

A global step is an ordered list of micro-batches; workers, devices and accumulation only decide who computes
which, so none of them moves the loss curve. Nothing here knows mxnet.
"""

from __future__ import annotations

import dataclasses
import math

from mxtrain.config import Run
from mxtrain.core.errors import UsageError

LARGEST_DEFAULT_MICRO_BATCH = 32
MAX_DEVICES = 64


@dataclasses.dataclass(frozen=True)
class BatchPlan:
    """How one global batch is cut; the last micro-batch of a step may be shorter."""

    batch_size: int
    micro_batch: int
    num_micro_batches: int
    num_replicas: int
    accumulate: int

    def __str__(self) -> str:
        even = self.micro_batch * self.num_micro_batches == self.batch_size
        cut = f"{self.num_micro_batches} micro-batches of {self.micro_batch}" + (
            "" if even else " (last one shorter)"
        )
        where = f"over {self.num_replicas} replicas, accumulate {self.accumulate}"
        return f"global batch {self.batch_size} = {cut} {where}{self._idle()}"

    def _idle(self) -> str:
        """The cut does not follow the mapping, so that the curve does not; a large one leaves replicas out."""
        num_idle = self.num_replicas - self.num_micro_batches
        if num_idle <= 0:
            return ""
        flag = f"--micro-batch {self.batch_size // self.num_replicas}"
        if self.batch_size < self.num_replicas:
            flag = f"a --batch-size of {self.num_replicas} or more"
        return f"; {num_idle} of them compute nothing: {flag} gives each its part"


def devices(text: str) -> tuple[tuple[str, int], ...]:
    """'cpu:0,1' as (('cpu', 0), ('cpu', 1)); 'cpu' alone is its first."""
    kind, _, numbers = text.partition(":")
    parts = [part.strip() for part in numbers.split(",")] if numbers else ["0"]
    # cpu:0,cpu:1 says the same at more length.
    parts = [part[len(kind) + 1 :] if part.startswith(kind + ":") else part for part in parts]
    if kind not in ("cpu", "gpu") or not all(part.isdecimal() for part in parts):
        raise UsageError(f"--devices {text}: expected cpu, cpu:0,1 or gpu:0,1")
    found = tuple((kind, int(part)) for part in parts)
    if any(index >= MAX_DEVICES for _, index in found):
        raise UsageError(f"--devices {text}: numbers go from 0 to {MAX_DEVICES - 1}")
    if len(set(found)) < len(found):
        raise UsageError(f"--devices {text}: names a device twice; name each once")
    return found


def positions(run: Run, num_micro_batches: int, worker: int) -> list[int]:
    """Those of a step's micro-batches that a worker computes: they are dealt to the replicas in turn."""
    num_devices = len(devices(run.layout.devices))
    return [p for p in range(num_micro_batches) if p // num_devices % run.layout.num_workers == worker]


def batch_plan(run: Run) -> BatchPlan:
    """The cut of the global batch; flags that contradict each other are refused with numbers that fit."""
    batch_size, micro_batch, accumulate = run.optim.batch_size, run.optim.micro_batch, run.optim.accumulate
    num_replicas = len(devices(run.layout.devices)) * run.layout.num_workers
    if not micro_batch:
        places = accumulate * num_replicas
        # Without --accumulate the cut depends on batch_size alone, whatever the mapping.
        micro_batch = math.ceil(batch_size / (places or math.ceil(batch_size / LARGEST_DEFAULT_MICRO_BATCH)))
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
    return BatchPlan(batch_size, micro_batch, num_micro_batches, num_replicas, derived)
