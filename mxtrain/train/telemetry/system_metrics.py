"""The records `system` of a run: what it takes of its hosts, looked at by a thread beside the training.

Owns the thread and what it reads. One worker of each host looks, and its samples reach all workers over the control
channel (docs/records.md). The thread touches no mxnet, and what cannot be read is left out: it never stops a run.
"""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping

from mxtrain.cluster.worker_group import WorkerGroup
from mxtrain.core.system import machine

logger = logging.getLogger(__name__)

START_SECONDS = 2.0  # until the first sample: none of this delays the first step
EVERY_SECONDS = 10.0
END_SECONDS = 1.0  # that the end of a run waits for a reading that is under way


@contextlib.contextmanager
def watching(group: WorkerGroup) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Look at this host while the block lasts, if this worker does it for its host.

    Yields a function that returns the samples of all hosts since its last call.
    """
    own: deque[dict[str, Any]] = deque(maxlen=1000)
    has_ended = threading.Event()

    def look() -> None:
        try:
            for sample in _samples(has_ended):
                own.append(sample)
                group.send_note(sample)
        except Exception:
            logger.debug("this host is not looked at any more", exc_info=True)

    def since() -> list[dict[str, Any]]:
        return [*(own.popleft() for _ in range(len(own))), *group.heard()]

    if not group.is_first_on_host:
        yield since
        return
    thread = threading.Thread(target=look, name="host samples", daemon=True)
    thread.start()
    try:
        yield since
    finally:
        has_ended.set()
        thread.join(END_SECONDS)


def _samples(has_ended: threading.Event) -> Iterator[dict[str, Any]]:
    """Yield a sample now and then."""
    if has_ended.wait(START_SECONDS / 2):
        return
    with contextlib.ExitStack() as open_until_end:
        gpus = open_until_end.enter_context(_gpus())
        before, seconds = _counters(), START_SECONDS / 2
        while not has_ended.wait(seconds):
            after = _counters()
            yield {
                "time": time.time(),
                "host": platform.node(),
                **_rates(before, after),
                **_read(_memory),
                **_read(gpus),
            }
            before, seconds = after, EVERY_SECONDS


def _read(reader: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return what can be read here."""
    try:
        return reader()
    except Exception:
        logger.debug("%s cannot be read on this host", reader, exc_info=True)
        return {}


# ------------------------------------------------------------------------------------------------------------
# CPU, disks and network: counters, and how fast they grow


def _counters() -> dict[str, float]:
    readers = (_cpu_counters, _disk_counters, _network_counters)
    return {"seconds": time.monotonic(), **{k: v for each in readers for k, v in _read(each).items()}}


def _cpu_counters() -> dict[str, float]:
    import psutil

    times = psutil.cpu_times()._asdict()
    total = sum(seconds for name, seconds in times.items() if not name.startswith("guest"))  # in user already
    idle = times["idle"] + times.get("iowait", 0.0)
    own = sum(map(machine.cpu_seconds, _family(os.getpid())))
    return {"cpu_total": total, "cpu_busy": total - idle, "cpu_own": own}


def _disk_counters() -> dict[str, float]:
    import psutil

    found = psutil.disk_io_counters()
    return (
        {} if found is None else {"disk_read_bytes": found.read_bytes, "disk_write_bytes": found.write_bytes}
    )


def _network_counters() -> dict[str, float]:
    import psutil

    cards = [card for name, card in psutil.net_io_counters(pernic=True).items() if name != "lo"]
    received, sent = (sum(getattr(card, name) for card in cards) for name in ("bytes_recv", "bytes_sent"))
    return {"network_in_bytes": received, "network_out_bytes": sent}


def _rates(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return what the counters say of the time between; processes that have ended take their CPU time with them."""
    grown = {name: max(0.0, value - before[name]) for name, value in after.items() if name in before}
    seconds = grown.pop("seconds")
    found = {f"{name}_per_second": grown[name] / seconds for name in grown if name.endswith("bytes")}
    if grown.get("cpu_total"):
        found["cpu_percent"] = min(
            100.0, 100 * grown["cpu_busy"] / grown["cpu_total"]
        )  # a sum of parts, rounded
        # A busy machine lets time pass between two counters: what they say together may be more than there is.
        of_all = 100.0 * (os.cpu_count() or 1)
        found["process_cpu_percent"] = min(of_all, 100 * grown["cpu_own"] / seconds)
    return found


# ------------------------------------------------------------------------------------------------------------
# Memory, GPUs


def _memory() -> dict[str, Any]:
    return {
        "rss_bytes": sum(map(machine.resident_bytes, _family(os.getpid()))),
        "memory_free_bytes": machine.available_memory(),
    }


def _family(pid: int) -> list[int]:
    """Return a process and its descendants, as loader workers; the former alone where Linux does not list children."""
    children = [
        int(child)
        for listed in Path(f"/proc/{pid}/task").glob("*/children")
        for child in _read_text(listed).split()
    ]
    return [pid, *(each for child in children for each in _family(child))]


def _read_text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # it has just ended
        return ""


@contextlib.contextmanager
def _gpus() -> Iterator[Callable[[], dict[str, Any]]]:
    """Yield a reader of this host's NVIDIA GPUs; of nothing without a driver or its library for Python."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:
        yield dict
        return

    def read() -> dict[str, Any]:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return {"gpus": [_gpu(pynvml, index, handle) for index, handle in enumerate(handles)]}

    try:
        yield read
    finally:
        pynvml.nvmlShutdown()


def _gpu(pynvml: Any, index: int, handle: Any) -> dict[str, Any]:
    name, memory = pynvml.nvmlDeviceGetName(handle), pynvml.nvmlDeviceGetMemoryInfo(handle)
    return {
        "index": index,
        "name": name.decode() if isinstance(name, bytes) else name,
        "utilization_percent": pynvml.nvmlDeviceGetUtilizationRates(handle).gpu,
        "memory_bytes": memory.used,
        "memory_total_bytes": memory.total,
    }
