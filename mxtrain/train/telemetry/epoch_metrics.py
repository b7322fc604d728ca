"""The records `epoch` and `system` of a run, and samples that it has seen, written between steps (docs/records.md).

Owns what an epoch took: time, memory, arithmetic against what this process reaches at best. What is looked at beside
the training is `system_metrics.py`'s.
"""

from __future__ import annotations

import contextlib
import logging
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Iterator

from mxtrain.models.analysis import flops, peak_flops
from mxtrain.models.stages import StagedNet
from mxtrain.report.sinks.record import Record
from mxtrain.runtime import mx
from mxtrain.train.context import TrainContext
from mxtrain.train.net import memory_kinds
from mxtrain.train.telemetry import system_metrics

if TYPE_CHECKING:
    from mxtrain.runtime.types import Device
    from mxtrain.train.input_pipeline import BatchSource

logger = logging.getLogger(__name__)

# Of the training so far, that measurements of the peak may take; one needs a tenth of a second to be of use. The best
# of some counts: another process may have the cores for a while.
PEAK_SHARE, PEAK_SECONDS, MOST_PEAKS = 0.01, 0.1, 5

AfterStep = Callable[[Callable[[Record], None], "BatchSource", int, int, float], None]


@contextlib.contextmanager
def observed(context: TrainContext) -> Iterator[AfterStep]:
    """Yield a function that writes the records that are due after a step: of its number, its samples and seconds."""
    epoch, length = _Epoch(context), context.job.plan.length
    with system_metrics.watching(context.group) as samples:

        def after_step(
            write: Callable[[Record], None], loader: BatchSource, step: int, num_samples: int, seconds: float
        ) -> None:
            context.prepare.write(context.task, Path(context.run.output.out))
            place = {"step": step, "epoch": length.epoch_of(step)}
            for sample in samples():
                write({"kind": "system", **place, **sample})
            epoch.add(num_samples, seconds)
            if length.is_epoch_end(step):
                write({"kind": "epoch", **place, **epoch.take(loader)})

        yield after_step


class _Epoch:
    """The steps of this attempt since the last end of an epoch."""

    def __init__(self, context: TrainContext):
        self._context = context
        self._samples, self._seconds, self._seconds_of_attempt = 0, 0.0, 0.0
        self._flops_per_sample: dict[str, int] | None = None
        self._kinds: dict[str, Any] | None = None
        self._peaks: dict[str, float] = {}
        self._num_peaks, self._seconds_of_peaks = 0, 0.0

    def add(self, samples: int, seconds: float) -> None:
        """Take note of a step."""
        self._samples += samples
        self._seconds += seconds
        self._seconds_of_attempt += seconds

    def take(self, loader: BatchSource) -> dict[str, Any]:
        """Return the numbers of the epoch that has ended, and begin the next one."""
        found = {
            "seconds": self._seconds,
            "samples": self._samples,
            "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
            **_unless_it_fails(self._memory_of_gpus),
            **self._memory_by_kind(),
            **_loader_workers(loader),
            **self._arithmetic(),
        }
        self._samples, self._seconds = 0, 0.0
        return found

    def _memory_of_gpus(self) -> dict[str, Any]:
        """Return what the GPUs of this worker hold: MXNet keeps what it had at most."""
        net = self._context.net
        devices = set(net.devices) if isinstance(net, StagedNet) else self._context.devices
        gpus = [device for device in devices if _is_gpu(device)]
        if not gpus:
            return {}
        free_and_total = {each.device_id: mx.context.gpu_memory_info(each.device_id) for each in gpus}
        held = {f"gpu:{index}": total - free for index, (free, total) in free_and_total.items()}
        return {"peak_gpu_bytes": held}

    def _memory_by_kind(self) -> dict[str, Any]:
        """Return what the run's processes hold, by kind; told once an attempt."""
        if self._kinds is not None:
            return {}
        self._kinds = _unless_it_fails(lambda: {"memory_bytes": memory_kinds.by_process(self._context)})
        return self._kinds

    def _arithmetic(self) -> dict[str, float]:
        if self._flops_per_sample is None:
            self._flops_per_sample = _unless_it_fails(self._counted)
        if not self._flops_per_sample:
            return {}
        own_samples = self._samples / self._context.step_group.world_size
        per_second = self._flops_per_sample["flops_per_sample"] * own_samples / max(self._seconds, 1e-9)
        most_seconds = PEAK_SHARE * self._seconds_of_attempt - self._seconds_of_peaks
        if self._num_peaks < MOST_PEAKS and most_seconds >= PEAK_SECONDS:
            self._num_peaks += 1
            _unless_it_fails(lambda: self._measure_peaks(most_seconds))
        return {**self._flops_per_sample, "flops_per_second": per_second, **self._peaks}

    def _counted(self) -> dict[str, int]:
        inputs = [(1, *shape) for shape in self._context.task.contract().inputs]
        nodes = flops.of_net(self._context.net, inputs)
        total = sum(node.forward + node.backward for node in nodes or ())
        return {"flops_per_sample": total} if total else {}

    def _measure_peaks(self, most_seconds: float) -> dict[str, float]:
        started, device = time.monotonic(), self._context.devices[0]
        names = {"float32": "peak_flops_per_second"}
        if self._context.built.forecast.narrow_flops and device.device_type == "cpu":
            names["bfloat16"] = "peak_bf16_flops_per_second"
        for dtype, name in names.items():
            measured = peak_flops.measure(device, dtype, most_seconds / len(names))
            self._peaks[name] = max(measured, self._peaks.get(name, 0.0))
        self._seconds_of_peaks += time.monotonic() - started
        return self._peaks


def _unless_it_fails(look: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what is found; nothing where that fails, as of a user's graph or on a GPU that is full."""
    try:
        return look()
    except Exception:
        logger.debug("left out of the record of the epoch", exc_info=True)
        return {}


def _is_gpu(device: Device) -> bool:
    return bool(device.device_type == "gpu")


def _loader_workers(loader: BatchSource) -> dict[str, int]:
    """Return how many there are; a user's own loader says nothing."""
    count = getattr(loader, "num_workers", None)
    return {} if count is None else {"loader_workers": count}
