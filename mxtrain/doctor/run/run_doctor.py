"""The examination of a run: `doctor` with flags of `fit`.

Owns the words of --only, their order, and the table of what was found. A run that fit would refuse is refused here by
the same sentences, before anything is measured.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
from pathlib import Path
from typing import Any, NamedTuple, Sequence

from mxtrain.config import Run, batch_plan, to_flat
from mxtrain.config.checks import bounds
from mxtrain.config.components import stores
from mxtrain.core.errors import UsageError, nearest
from mxtrain.core.system import machine
from mxtrain.data.user.streams import Stream
from mxtrain.data.user.user_datasets import UserBatches
from mxtrain.doctor.machine import disk_advice
from mxtrain.doctor.net import net_doctor
from mxtrain.doctor.run import micro_batch, rate_choice, run_files, run_speed, store_rates, trials
from mxtrain.doctor.run.rate_choice import RateChoice
from mxtrain.doctor.run.rates import Rate
from mxtrain.doctor.run.trials import Bench
from mxtrain.optim import schedules
from mxtrain.report.page import plots
from mxtrain.train import session
from mxtrain.train.session import RunInputs

SPEED = ("data", "compute", "comm")
PARTS = ("memory", *SPEED, "micro-batch", "rate", "gradients", "overfit")
USUAL = ("memory", *SPEED)
BUSY = 1.0  # processes that want to run, a core
MICRO_BATCH_SHARE = 1 / 30  # of the seconds, for each size


def chosen(words: str) -> tuple[str, ...]:
    """Return the parts that --only names, in their order; UsageError for an unknown one."""
    requested = [word.strip() for word in words.split(",")] if words else list(USUAL)
    for word in requested:
        if word not in PARTS:
            raise UsageError(f"--only {word}: unknown{nearest(word, PARTS)} ({', '.join(PARTS)})")
    return tuple(part for part in PARTS if part in requested)


class DoctorOptions(NamedTuple):
    """Parts of a run that are to be examined, and how."""

    parts: Sequence[str]
    seconds: float = 60.0  # for measuring what bounds the run
    memory: int = 0  # bytes that a micro-batch may take; 0: what is left
    rate_steps: int = 120
    rate_plot: Path | None = None


def examine(run: Run, options: DoctorOptions) -> dict[str, Any]:
    """Return what was found, as values that JSON can hold but for rates, and the `rows` of a table."""
    only, seconds = options.parts, options.seconds
    bounds.check(run)
    run = dataclasses.replace(
        run, output=dataclasses.replace(run.output, dry_run=True)
    )  # no run folder is made
    inputs = session.open_inputs(run)
    run = session.begun(inputs.task.run, inputs, None)
    is_cluster = stores.is_cluster(run.layout.kvstore)
    if list(only) == ["comm"] and not is_cluster:
        raise UsageError(
            f"--only comm: --kvstore {run.layout.kvstore} sums over no workers; give dist_sync, or other parts"
        )
    bench = Bench(run, inputs.task.description, run.layout.num_workers if is_cluster else 1)
    findings: dict[str, Any] = {"load": os.getloadavg()[0], **dict.fromkeys(SPEED)}
    if "memory" in only:
        findings["memory"] = trials.measure(bench, "ways", run=to_flat(run))
    if "data" in only:
        findings["data"] = run_speed.data(bench, inputs.train, "cache" in inputs.task.flags, seconds)
    if "compute" in only:
        findings["compute"] = run_speed.compute(bench, seconds)
    # Last of the data's: it drops the files from the system's memory.
    if findings["data"] and findings["compute"]:
        per_second = bench.local_workers * findings["compute"]["rate"].median
        decoded = max((entry.get("bytes", 0) for entry in findings["data"]["variants"]), default=0)
        remotes = getattr(inputs.train, "remotes", [])
        if remotes:
            findings["store"] = store_rates.examine(remotes, len(inputs.train), run.data.order, per_second)
        files = [] if remotes else inputs.train.files
        findings["files"] = run_files.examine(files, len(inputs.train), per_second, decoded)
    if "comm" in only and is_cluster:
        computed = findings["compute"] or trials.measure(bench, "compute", seconds=0, with_loader=False)
        findings["comm"] = run_speed.comm(bench, computed["gradients"], seconds)
    if "micro-batch" in only:
        findings["micro_batch"] = micro_batch.examine(bench, options.memory, seconds * MICRO_BATCH_SHARE)
    if "rate" in only:
        findings["rate"] = range_test(bench, options)
    if "gradients" in only:
        findings["gradients"] = net_doctor.gradients(bench, seconds)
    if "overfit" in only:
        is_own = isinstance(inputs.train, (UserBatches, Stream))
        findings["overfit"] = net_doctor.overfit(bench, seconds / 3, is_own)
    findings["advice"] = run_speed.advice(findings, inputs.task.unit, inputs.task.units_per_sample)
    findings["bound"] = run_speed.bound(findings, inputs.task.unit, inputs.task.units_per_sample)
    findings["rows"] = rows(run, inputs, findings, options)
    return findings


def range_test(bench: Bench, options: DoctorOptions) -> dict[str, Any]:
    """Return the losses of a learning-rate range test and the `choice` that follows, drawn where that was asked for."""
    if options.rate_plot and not importlib.util.find_spec("matplotlib"):
        raise UsageError(
            f"--rate-plot {options.rate_plot}: drawing needs matplotlib: pip install 'mxtrain[report]'"
        )
    measured = trials.measure(bench, "rate", num_steps=options.rate_steps)
    tried, losses = measured["rates"], measured["losses"]
    if not losses:
        raise UsageError("--only rate: the first loss is not finite already; see --only gradients")
    choice = rate_choice.choose(tried, losses)
    if options.rate_plot:
        title = f"learning-rate range test: {rate_choice.in_words(choice)}"
        plots.draw_range_test(
            options.rate_plot, tried, losses, rate_choice.smoothed(losses), choice.rate, title
        )
    return {**measured, "choice": choice}


def rows(
    run: Run, inputs: RunInputs, findings: dict[str, Any], options: DoctorOptions
) -> list[tuple[str, list[str]]]:
    """Return the lines of the table, by the name of their row."""
    task, num_val = inputs.task, len(inputs.val) if inputs.val is not None else 0
    unit, units = task.unit, task.units_per_sample
    summary = f"{inputs.train.path}: {len(inputs.train)} samples, {task.summary()}"
    about = [summary, str(batch_plan.of_run(run)), *busy(findings["load"])]
    memory = [("memory", findings["memory"]["lines"])] if "memory" in findings else []
    lines = [("run", about), *memory, *run_speed.rows(findings, unit, units, num_val)]
    advised = [f"{each.sentence}: the run is {each.factor:.2g} times as fast" for each in findings["advice"]]
    if findings.get("files"):
        lines.append(("files", disk_advice.in_words(findings["files"])))
        advised += findings["files"]["advice"]
    if "store" in findings:
        lines.append(("store", store_rates.in_words(findings["store"])))
        advised += findings["store"]["advice"]
    if "micro_batch" in findings:
        lines += micro_batch.rows(findings["micro_batch"], unit, units)
        advised += micro_batch.advice(findings["micro_batch"], unit, units)
    if "rate" in findings:
        choice, plot = RateChoice(*findings["rate"]["choice"]), options.rate_plot
        lines.append(("rate", [rate_choice.in_words(choice), *([f"drawn: {plot}"] if plot else [])]))
        advised.append(
            rate_choice.advice(choice, run.optim.lr, schedules.peak_rate(run.optim) / run.optim.lr)
        )
    if "gradients" in findings:
        lines += net_doctor.gradient_rows(findings["gradients"])
        advised += net_doctor.gradient_advice(findings["gradients"])
    if "overfit" in findings:
        lines += net_doctor.overfit_rows(findings["overfit"])
        advised += net_doctor.overfit_advice(findings["overfit"], run.optim.lr)
    advised += run_speed.noise(findings)
    is_cluster = stores.is_cluster(run.layout.kvstore)
    left = [part for part in PARTS if part not in options.parts and (part != "comm" or is_cluster)]
    return [
        *lines,
        ("recommended", advised or ["nothing: no flag that was tried makes this run faster"]),
        *([("more", [f"--only {','.join(left)}"])] if left else []),
    ]


def busy(load: float) -> list[str]:
    """Return a sentence where others have this machine: OpenMP's threads wait for each other, and rates mean little."""
    cores = machine.usable_cores()
    return [
        f"this machine is busy, with a load of {load:.0f} on {cores} cores: measure again when it is not"
    ] * (load > BUSY * cores)


def as_json(value: Any) -> Any:
    """Return what JSON can hold: of rates their median and range by name."""
    if isinstance(value, Rate):
        return value._asdict()
    if hasattr(value, "_asdict"):
        return as_json(value._asdict())
    if isinstance(value, dict):
        return {key: as_json(inner) for key, inner in value.items() if key != "rows"}
    return [as_json(inner) for inner in value] if isinstance(value, (list, tuple)) else value
