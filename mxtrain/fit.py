"""`python -m mxtrain.fit`: train a net.

The command's order is its purpose: everything that can be refused is refused before mxnet is loaded. Over a dist_*
store the same command is started once for every process of the cluster, and finds in its environment which it is;
where it finds nothing it brings up a cluster on this machine.
"""

from __future__ import annotations

import os

if __name__ == "__main__":  # before the other imports, which take a while
    from mxtrain.core import interrupts

    if os.environ.get("DMLC_ROLE") == "worker":
        interrupts.defer_signal("mxtrain.fit")
    else:
        interrupts.exit_on_signal("mxtrain.fit")

import functools
import logging
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, NoReturn, Sequence

from mxtrain import config
from mxtrain.cluster import environment
from mxtrain.cluster.environment import NodeSpec
from mxtrain.config import batch_plan, bounds, names
from mxtrain.core import command_name
from mxtrain.core.die_with_parent import die_with_parent
from mxtrain.core.errors import Stop, one_line
from mxtrain.train import signals

if TYPE_CHECKING:
    from mxtrain.checkpoint.directory import Checkpoint
    from mxtrain.checkpoint.input_identity import InputIdentity
    from mxtrain.data.records import Dataset, Records
    from mxtrain.tasks.task import Score, Task

logger = logging.getLogger("mxtrain.fit")


def main(argv: Sequence[str] | None = None) -> int:
    die_with_parent()
    if os.environ.get("DMLC_ROLE"):
        _as_node(lambda: command(argv))
    return one_line("mxtrain.fit", lambda: command(argv))


def command(argv: Sequence[str] | None) -> None:
    run = config.parse(argv, command_name.typed("python -m mxtrain.fit"))
    bounds.check(run)  # before any of its numbers is used; servers and the scheduler check no more
    if run.output.plot_schedule:
        plot_schedule(run)
        return
    if run.output.dry_run:
        dry_run(run)
        return
    node = environment.node_spec(os.environ, run) if run.layout.kvstore in names.DIST_STORES else None
    if run.layout.kvstore in names.DIST_STORES and node is None:
        from mxtrain.launch import local

        raise SystemExit(local.launch(run, sys.argv[1:] if argv is None else argv))
    if node is not None:
        run = node.with_counts(run)
    if node is None or node.role == "worker":
        with signals.stop_requests() as stop_requests:
            fit(run, stop_requests, node)
    else:
        serve(run, node)


def _as_node(command: Callable[[], None]) -> NoReturn:
    """Run a process of a cluster, and end it at once: ps-lite's own end waits for the others, however long."""
    code = 1
    try:
        code = one_line("mxtrain.fit", command)
    except SystemExit as end:
        code = _code_of(end)
    except BaseException:
        traceback.print_exc()
    finally:
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code)


def _code_of(end: SystemExit) -> int:
    """Return the exit code that Python would use for a SystemExit; a message is printed, as Python does."""
    if end.code is None or isinstance(end.code, int):
        return int(end.code or 0)
    print(end.code, file=sys.stderr)
    return 1


def plot_schedule(run: config.Run) -> None:
    """Draw the learning rate of every step; without data, --max-steps are taken for all --epochs."""
    from mxtrain.config import checks
    from mxtrain.optim import schedules
    from mxtrain.report import plots
    from mxtrain.train.open_data import open_source

    checks.check_description(run)
    steps_per_epoch, num_steps = run.optim.max_steps / run.optim.epochs, run.optim.max_steps
    if run.data.train:
        samples = open_source("--train", run.data.train, run)
        steps_per_epoch, num_steps = schedules.run_length(run.optim, len(samples))
    rate_of = schedules.rate_function(run.optim, steps_per_epoch, num_steps)
    title = schedules.summary(run.optim, steps_per_epoch, num_steps)
    steps = schedules.plotted_steps(run.optim, steps_per_epoch, num_steps)
    plots.draw_rates(
        Path(run.output.plot_schedule), steps, [rate_of(step) for step in steps], steps_per_epoch, title
    )
    print(f"{run.output.plot_schedule}: {title}", flush=True)


class RunInputs(NamedTuple):
    """The data sets that a run reads, the identity by which its checkpoints recognise them, and what is learnt."""

    train: Dataset
    val: Records | None
    identity: InputIdentity
    task: Task


def open_inputs(run: config.Run, begins: bool = True) -> RunInputs:
    """Open the run's data sets, once the run itself is known to be possible here.

    `begins` is False for a process that its job has restarted, to which some checks no longer apply.
    """
    from mxtrain.checkpoint.input_identity import InputIdentity
    from mxtrain.config import checks
    from mxtrain.tasks import find as tasks
    from mxtrain.train.open_data import open_source

    checks.check(run, begins)
    tasks.check_flags(run)
    train = open_source("--train", str(run.data.train), run)
    # With --overfit the training samples are what is judged.
    val = open_source("--val", run.data.val, run) if run.data.val and not run.optim.overfit else None
    task = tasks.of_data(run, train, val)
    return RunInputs(train, val, InputIdentity.of_run(run, train, val, task.description), task)


def plan_lines(run: config.Run, inputs: RunInputs) -> list[str]:
    """Return lines that say what is going to happen: the data, the cut of the batch, the learning rate."""
    from mxtrain.optim import schedules

    train = inputs.train
    return [
        f"{train.path}: {len(train)} samples, {inputs.task.summary()}",
        str(batch_plan.of_run(run)),
        schedules.summary(run.optim, *schedules.run_length(run.optim, len(train))),
    ]


def fit(run: config.Run, stop_requests: list[Stop], node: NodeSpec | None = None) -> None:
    """Train `run`, as the worker `node` of a cluster if it is not None; a signal adds to `stop_requests`."""
    from mxtrain.checkpoint import resume, run_folder
    from mxtrain.core import kernels
    from mxtrain.data import cache, sample_requests
    from mxtrain.train import join, node_info

    with join.reporting_failure(run, node):
        inputs = open_inputs(run, begins=node is None or not node.is_restart)
        info = node_info.collect(run, inputs.train, inputs.val, inputs.identity) if node else {}
    train, val, identity, task = inputs
    worker = join.as_worker(run, node, info, stop_requests)
    with worker as (assigned, group), run_folder.locked(assigned, group) as out:
        for remark in group.remarks:
            logger.warning("%s", remark)
        resume_point = resume.find(assigned, identity, group.local_workers)
        checkpoint = resume_point and resume_point.checkpoint
        run, assigned = (resume.as_begun(each, checkpoint) for each in (run, assigned))
        if resume_point is None and node is not None and node.is_restart:
            logger.warning(
                "--out %s: holds no checkpoint of this job's earlier attempts; it begins at step 1 again", out
            )
        run_start = run_folder.RunStart(run, resume_point, group)
        for line in plan_lines(assigned, inputs):
            logger.info("%s", line)
        logger.info("CPU kernels: %s", kernels.in_words(kernels.used()))
        cached = functools.partial(
            cache.with_cache, run.data, out=out, on_progress=signals.progress_callback(group, stop_requests)
        )
        train = cached(train)  # type: ignore[arg-type]  # a user's DataLoader comes without --cache
        val = val and cached(val)
        if run.optim.overfit:
            val = sample_requests.OverfitRecords(run, train)

        from mxtrain import runtime

        runtime.load(group.local_workers, run.layout.threads or None)
        group.report_progress("start", -1)
        from mxtrain.train import loop

        loop.train(assigned, train, val, identity, checkpoint, stop_requests, group, run_start)
        if group.rank == 0:
            score = task.score
            line = end_line(out, score) if run_start.has_happened else nothing_done_line(checkpoint, score)
            print(line, flush=True)


def end_line(out: Path, score: Score) -> str:
    """Return the last line of a run, with its scores."""
    from mxtrain.checkpoint import run_folder

    evaluations = run_folder.evaluations(out)
    scores = f"{score_text(evaluations, score)}; " if evaluations else ""
    return f"done: {scores}{out / 'checkpoints'}, {out / 'metrics.jsonl'}, {out / 'config.yaml'}"


def nothing_done_line(checkpoint: Checkpoint | None, score: Score) -> str:
    """Return the last line of a run that had nothing left to do: the scores of the ended one, and of which data set."""
    from mxtrain.checkpoint import run_folder

    if checkpoint is None:
        return "done: there was nothing to do"
    path, state = checkpoint
    evaluations = run_folder.evaluations(path.resolve().parent.parent, state["step"])
    judged = "the samples of --overfit" if state["config"].get("overfit") else state["config"]["val"]
    scores = f"{score_text(evaluations, score)}, on {judged}" if evaluations else "no evaluation"
    return f"done before, nothing is written: {scores}; {path}"


def score_text(evaluations: Sequence[dict[str, Any]], score: Score) -> str:
    """Return the scores of the last evaluation and of the best one; of equals the newest is best, as in evaluate."""
    key, sign = f"val_{score.name}", -1 if score.is_lower_better else 1
    last, best = evaluations[-1], max(reversed(evaluations), key=lambda each: sign * each[key])
    is_best = "the best" if best is last else f"best {best[key]:.4f} at step {best['step']}"
    shown = ", ".join(
        f"{name.replace('_', ' ')} {last[name]:.4f}" for name in dict.fromkeys((key, "val_loss"))
    )
    return f"{shown} at step {last['step']}, {is_best}"


def serve(run: config.Run, node: NodeSpec) -> None:
    """Be the scheduler or a server `node` of a cluster, until its workers have ended."""
    from mxtrain.checkpoint import run_folder
    from mxtrain.train import join

    run_folder.start_log(run.output.log_level)
    with join.as_server(run, node) as agent:
        from mxtrain import runtime

        runtime.load(threads=1)
        from mxtrain.kvstore import server

        server.serve(agent)


def dry_run(run: config.Run) -> None:
    """Print what would be trained, or why it would be refused; no run folder is made."""
    from mxtrain.checkpoint import resume
    from mxtrain.optim import schedules

    inputs = open_inputs(run)
    resume_point = resume.find(run, inputs.identity, run.layout.num_workers)
    run = resume.as_begun(run, resume_point and resume_point.checkpoint)
    rate_of = schedules.rate_function(run.optim, *schedules.run_length(run.optim, len(inputs.train)))
    rate_of(0)  # a schedule of the user's own is tried

    from mxtrain import runtime
    from mxtrain.checkpoint import run_folder

    run_folder.start_log(run.output.log_level)
    runtime.load(threads=run.layout.threads or None)
    from mxtrain.train import dry_run

    table = dry_run.parameter_table(run, inputs.task, is_fresh=resume_point is None)
    begin = [f"resuming from {resume_point.checkpoint.path}"] if resume_point else []
    print("\n".join([*plan_lines(run, inputs), *begin, table]), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
