"""The examination of a run's speed: its data alone, its computing alone, its sums alone, and a real step of all.

Owns which measurements are made, how the seconds are shared among them, and the lines that tell of them. What follows
is `bottlenecks.py`'s. Never loads mxnet itself: each measurement has a process of its own.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Iterator, Mapping, Sequence

from mxtrain.config.components import stores
from mxtrain.core.errors import UsageError
from mxtrain.core.system import kernels, machine
from mxtrain.data.interfaces import Dataset
from mxtrain.doctor.cluster import sum_jobs
from mxtrain.doctor.cluster.store_advice import DEFAULT_BUCKET_MB
from mxtrain.doctor.run import bottlenecks, data_rate, trials
from mxtrain.doctor.run.bottlenecks import Advice, Bound, Variant
from mxtrain.doctor.run.rates import Rate, is_faster, of_windows
from mxtrain.doctor.run.trials import Bench

# Of the seconds given; a cluster's sums have their own.
DATA_SHARE, STEP_SHARE, CHOICES_SHARE = 0.4, 0.3, 0.3
LEAST_SECONDS = 0.3  # of one measurement
TURNS = 2  # in which what seems faster is compared again
LEAST_CLUSTER_SECONDS = 40.0  # processes start, meet, and end


def data(bench: Bench, train: Dataset, has_cache: bool, seconds: float) -> dict[str, Any]:
    """Return the rate of the loader as the flags say it, and of others; samples a second."""
    tried = data_rate.variants(bench.run, train, has_cache)
    seconds = max(seconds * DATA_SHARE, LEAST_SECONDS * (1 + len(tried)))
    found = trials.measure(bench, "data", seconds=seconds, variants=tried)
    for entry in (found, *found["variants"]):
        for key in {"as_given", "rate"} & entry.keys():
            entry[key] = Rate(*entry[key])
    return found


def compute(bench: Bench, seconds: float) -> dict[str, Any]:
    """Return the rates of steps alone, of real ones, and of steps with other --threads and --amp."""
    choices = compute_choices(bench)
    measured = trials.measure(
        bench, "compute", seconds=max(seconds * STEP_SHARE, 2 * LEAST_SECONDS), with_loader=True
    )
    share = max(seconds * CHOICES_SHARE / (1 + len(choices)), LEAST_SECONDS)

    def rate_with(flags: dict[str, Any]) -> Rate:
        return Rate(
            *trials.measure(bench.with_flags(**flags), "compute", seconds=share, with_loader=False)["rate"]
        )

    measured["rate"] = Rate(*measured["rate"])
    measured["variants"] = [{"flags": flags, "rate": rate_with(flags)} for flags in choices]
    _in_turns(measured, rate_with)
    for key in ("step", "evaluation"):
        measured[key] = Rate(*measured[key])
    return measured


def _in_turns(findings: dict[str, Any], rate_with: Callable[[dict[str, Any]], Rate]) -> None:
    """Measure what seemed best, and what was given, again in turns: what else this machine does may have changed."""
    better = [entry for entry in findings["variants"] if is_faster(entry["rate"], findings["rate"])]
    if not better:
        return
    best = max(better, key=lambda entry: entry["rate"].median)
    best_windows, current_windows = [*best["rate"]], [*findings["rate"]]
    for _ in range(TURNS):
        best_windows += rate_with(best["flags"])
        current_windows += rate_with({})
    best["rate"], findings["rate"] = of_windows(best_windows), of_windows(current_windows)


def comm(bench: Bench, elements: Sequence[int], seconds: float) -> dict[str, Any]:
    """Return the rate of the sums of gradients of `elements`, of a cluster on this machine, and of others.

    A rate is in samples of one worker a second, as those of data and compute are.
    """
    optim, layout = bench.run.optim, bench.run.layout
    used, other = optim.compress, "2bit" if optim.compress == "none" else "none"
    buckets = {
        name: {"bucket_mb": DEFAULT_BUCKET_MB, "threshold": stores.compression_threshold(name)}
        for name in ((used, other) if layout.kvstore in ("dist_sync", "allreduce") else (used,))
    }
    sums, unix = sum_jobs.SumTimes(layout.num_workers, elements, buckets), os.environ.get("DMLC_LOCAL") != "0"
    deadline = time.monotonic() + max(seconds, LEAST_CLUSTER_SECONDS)
    used_servers = stores.num_servers(layout.kvstore, layout.num_servers)
    current_job = sum_jobs.job(used_servers, unix, deadline, sums)
    if current_job["error"]:
        raise UsageError(f"--kvstore {layout.kvstore}: no cluster came up here: {current_job['error']}")
    samples = optim.batch_size / layout.num_workers

    def rate(job: dict[str, Any], name: str) -> Rate:
        return of_windows([1e3 * samples / each for each in job["times"][name]])

    variants: list[dict[str, Any]] = []
    if other in buckets:
        variants.append({"flags": {"compress": other}, "rate": rate(current_job, other)})
    flags: dict[str, Any] = (
        {"num_servers": 2 if used_servers == 1 else 1} if used_servers else {"kvstore": "dist_sync"}
    )
    more = sum_jobs.job(
        flags.get("num_servers", 1), unix, deadline, sums._replace(buckets={used: buckets[used]})
    )
    result = {"refusal": more["error"]} if more["error"] else {"rate": rate(more, used)}
    variants.append({"flags": flags, **result})
    megabytes, ms = sum_jobs.BYTES_OF_FLOAT * sum(elements) / 1e6, current_job["milliseconds"][used]
    text = f"{megabytes:,.1f} MB of gradients are summed over {layout.num_workers} workers on this machine in {ms:g} ms"
    return {"rate": rate(current_job, used), "variants": variants, "text": text}


def compute_choices(bench: Bench) -> list[dict[str, Any]]:
    """Return the --threads and --amp that are worth trying here, each alone."""
    layout, model = bench.run.layout, bench.run.model
    if layout.devices.startswith("gpu"):
        return [{"amp": "fp16"}] if model.amp == "off" else []
    cores = machine.usable_cores() // bench.local_workers
    used = machine.openmp_threads(layout.threads, bench.local_workers)
    numbers = {1, cores // 2, cores} - {0, used}
    found: list[dict[str, Any]] = [{"threads": number} for number in sorted(numbers)]
    if kernels.bf16_problem() is None:
        found += [{"amp": amp} for amp in ("off", "bf16", "auto") if amp != model.amp]
    return found


def in_flags(flags: dict[str, Any]) -> str:
    """Return flags as they are typed."""
    return " ".join(f"--{name.replace('_', '-')} {value}" for name, value in flags.items())


def parts_of(findings: Mapping[str, Any], units: float) -> dict[str, Rate]:
    """Return the rate of each part that was measured, in the task's units."""
    rates = {
        "data": findings["data"] and findings["data"]["as_given"],
        "compute": findings["compute"] and findings["compute"]["rate"],
        "comm": findings["comm"] and findings["comm"]["rate"],
    }
    return {part: rate.times(units) for part, rate in rates.items() if rate}


def bound(findings: Mapping[str, Any], unit: str, units: float) -> Bound | None:
    """Return what bounds the run, where more than one part of it was measured."""
    parts = parts_of(findings, units)
    return bottlenecks.find(parts, unit) if len(parts) > 1 else None


def advice(findings: Mapping[str, Any], unit: str, units: float) -> list[Advice]:
    """Return what would make the run faster."""
    variants = [
        Variant(part, in_flags(entry["flags"]), entry["rate"].times(units), _remark(entry))
        for part in ("data", "compute", "comm")
        if findings[part]
        for entry in findings[part]["variants"]
        if "rate" in entry
    ]
    return bottlenecks.advise(parts_of(findings, units), variants, unit)


def noise(findings: Mapping[str, Any]) -> list[str]:
    """Return a sentence where a rate that advice would follow from is noise."""
    entries = [
        entry
        for part in ("data", "compute", "comm")
        if findings[part]
        for entry in findings[part]["variants"]
    ]
    rates = [*parts_of(findings, 1).values(), *(entry["rate"] for entry in entries if "rate" in entry)]
    return [f"nothing by rates marked as noise: {bottlenecks.AGAIN}"] * any(rate.is_noise for rate in rates)


def _remark(entry: Mapping[str, Any]) -> str:
    if "bytes" in entry:
        return f"{entry['bytes'] / 1e9:.3g} GB, filled in {duration(entry['fill_seconds'])} at the start"
    if "amp" in entry["flags"]:
        return "it rounds numbers: compare the scores of a short run"
    if "compress" in entry["flags"]:
        return "it changes what is learnt: compare the scores of a short run"
    return "another number of threads moves the last bits" if "threads" in entry["flags"] else ""


def rows(
    findings: Mapping[str, Any], unit: str, units: float, num_val: int
) -> Iterator[tuple[str, list[str]]]:
    """Yield the lines of the table, by the name of their row."""
    if findings["data"]:
        entries = (_line(entry, unit, units) for entry in findings["data"]["variants"])
        yield "data", [f"as given: {findings['data']['as_given'].times(units)} {unit}/s", *entries]
    if findings["compute"]:
        computed = findings["compute"]
        entries = (_line(entry, unit, units) for entry in computed["variants"])
        yield "compute", [f"as given: {computed['rate'].times(units)} {unit}/s", *entries]
    if findings["comm"]:
        entries = (_line(entry, unit, units) for entry in findings["comm"]["variants"])
        current = f"as given: {findings['comm']['rate'].times(units)} {unit}/s for each worker"
        yield "communication", [findings["comm"]["text"], current, *entries]
    parts = parts_of(findings, units)
    if findings["compute"]:
        step = computed["step"].times(units)
        local = {part: rate for part, rate in parts.items() if part != "comm"}
        yield "step", [f"{step} {unit}/s, {bottlenecks.together(local, step, computed['waiting'])}"]
        copied = (
            f"a checkpoint holds {computed['checkpoint_bytes'] / 1e6:,.1f} MB, for whose copy training waits "
        )
        yield "checkpoint", [copied + duration(computed["checkpoint_seconds"])]
        if num_val:
            rate = min((computed["evaluation"].times(units), *local.values()), key=lambda each: each.median)
            yield "evaluation", [f"{num_val:,} samples take about {duration(num_val * units / rate.median)}"]
    if findings["bound"]:
        yield "bound", [findings["bound"].sentence]


def duration(seconds: float) -> str:
    """Return a time in words, as in `1.2 s` or `3 min`."""
    if seconds < 1:
        return f"{1e3 * seconds:.0f} ms"
    return f"{seconds:.3g} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _line(entry: Mapping[str, Any], unit: str, units: float) -> str:
    flags = in_flags(entry["flags"])
    if "rate" not in entry:
        return f"{flags}: {entry['refusal']}"
    return f"{flags}: {entry['rate'].times(units)} {unit}/s"
