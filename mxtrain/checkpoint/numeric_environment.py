"""Causes of other last bits besides flags and data: versions, the CPU's kernels, threads.

Owns what a checkpoint keeps of them, under keys of state.json, and the lines for a run that goes on with others: its
curve goes on, rounded anew from there.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping

from mxtrain import native
from mxtrain.config import Run, batch_plan
from mxtrain.core.system import kernels, machine, wheels


def here(run: Run, local_workers: int) -> dict[str, Any]:
    """Return what `run` computes with in this process, one of `local_workers` on this machine."""
    return {
        "versions": wheels.versions(),
        "kernels": kernels_used(),
        "threads": machine.openmp_threads(run.layout.threads, local_workers),
    }


def kernels_used() -> dict[str, str]:
    """Return the kernels of MXNet's libraries and of mxtrain's own operators, in this process."""
    return {**kernels.used(), **native.kernels()}


def differences(saved: Mapping[str, Any], run: Run, local_workers: int = 1) -> Iterator[str]:
    """Yield a line for each thing that is another one here than in the checkpoint whose state is `saved`.

    Older checkpoints lack some of the keys, and are compared by the others.
    """
    now = here(run, local_workers)
    before = {**now, **saved}
    yield from _of_versions(before["versions"], now["versions"])
    devices, devices_now = _device_type(before["config"]["devices"]), _device_type(run.layout.devices)
    if devices != devices_now:
        yield _line(f"on {devices}s", f"on {devices_now}s")
        return
    if devices != "CPU":
        return
    if before["kernels"] != {name: now["kernels"].get(name) for name in before["kernels"]}:
        yield _line(f"with {kernels.in_words(before['kernels'])}", kernels.in_words(now["kernels"]))
    if before["threads"] != now["threads"]:
        line = _line(f"with {_in_words(before['threads'])}", _in_words(now["threads"]))
        yield f"{line}; --threads {before['threads']} keeps them"


def _device_type(devices: str) -> str:
    return batch_plan.parse_devices(devices)[0][0].upper()


def _of_versions(saved: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    other = [name for name in saved if name in now and saved[name] != now[name]]
    if other:
        before, after = (", ".join(f"{name} {each[name]}" for name in other) for each in (saved, now))
        yield (
            f"was computed by {before}, this is {after}, which may compute in another way: the curve goes on, perhaps "
            "to other last bits"
        )


def _line(before: str, after: str) -> str:
    return f"was computed {before}, here it is {after}: the curve goes on, to other last bits"


def _in_words(threads: int) -> str:
    return f"{threads} OpenMP thread{'s' * (threads > 1)}"
