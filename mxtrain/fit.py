"""`python -m mxtrain.fit`: train a net; in Python, `from mxtrain.fit import fit`.

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

import logging
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, NoReturn, Sequence

from mxtrain import config
from mxtrain.cluster import environment
from mxtrain.cluster.environment import NodeSpec
from mxtrain.config.checks import bounds
from mxtrain.config.components import stores
from mxtrain.config.flags import program
from mxtrain.core import command_name, interrupts
from mxtrain.core.die_with_parent import die_with_parent
from mxtrain.core.errors import DataError, Diverged, Stop, StopTraining, UsageError, one_line
from mxtrain.core.late_names import late_names
from mxtrain.core.system import machine
from mxtrain.train import signals

__all__ = ["DataError", "Diverged", "Moment", "Result", "Stop", "StopTraining", "UsageError", "fit", "main"]

logger = logging.getLogger("mxtrain.fit")

if TYPE_CHECKING:
    from mxtrain.checkpoint.directory import Checkpoint
    from mxtrain.tasks.task import Score
    from mxtrain.train.library.from_python import fit
    from mxtrain.train.library.hooks import Moment
    from mxtrain.train.library.result import Result

# Programs use these; the command answers --help without them.
__getattr__ = late_names(
    __name__,
    {
        "fit": "mxtrain.train.library.from_python",
        "Moment": "mxtrain.train.library.hooks",
        "Result": "mxtrain.train.library.result",
    },
)


def main(argv: Sequence[str] | None = None) -> int:
    die_with_parent()
    if os.environ.get("DMLC_ROLE"):
        _as_node(lambda: command(argv))
    return one_line("mxtrain.fit", lambda: command(argv))


def command(argv: Sequence[str] | None) -> None:
    words = sys.argv[1:] if argv is None else list(argv)
    flags, own_program = program.split(words)
    run = config.parse(flags, command_name.typed("python -m mxtrain.fit"))
    bounds.check(run)  # before any of its numbers is used; servers and the scheduler check no more
    if run.output.plot_schedule:
        plot_schedule(run)
        return
    if run.output.dry_run:
        dry_run(run)
        return
    node = environment.node_spec(os.environ, run) if stores.is_cluster(run.layout.kvstore) else None
    if stores.is_cluster(run.layout.kvstore) and node is None:
        from mxtrain.launch import local

        raise SystemExit(local.launch(run, words))
    if node is not None:
        run = node.with_counts(run)
    if own_program:
        run_program(run, node, own_program)
        return
    if node is None or node.role == "worker":
        train(run, node)
    else:
        from mxtrain.train.cluster import serving

        serving.serve(run, node)


def run_program(run: config.Run, node: NodeSpec | None, own_program: Sequence[str]) -> None:
    """Run a Python program, which calls `fit(...)`, in this process of a cluster, or alone as Python does."""
    from mxtrain.tasks import registry as tasks

    if node is None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if not interrupts.is_ignored(signal.SIGHUP):
            signal.signal(signal.SIGHUP, signal.SIG_DFL)
    tasks.share_cores(run)
    program.run(own_program)


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
    from mxtrain.config.checks import run_checks
    from mxtrain.data.loading import run_plan
    from mxtrain.data.loading.run_plan import RunLength
    from mxtrain.optim import schedules
    from mxtrain.report.page import plots
    from mxtrain.train.open_data import open_source

    run_checks.check_description(run)
    length = RunLength(run.optim.max_steps / run.optim.epochs, run.optim.max_steps)
    if run.data.train:
        length = run_plan.run_length(run.optim, len(open_source("--train", run.data.train, run)))
    rate_of = schedules.rate_function(run.optim, length)
    title = schedules.summary(run.optim, length)
    steps = schedules.plotted_steps(run.optim, length)
    rates, path = [rate_of(step) for step in steps], Path(run.output.plot_schedule)
    plots.draw_rates(path, steps, rates, length.steps_per_epoch, title)
    print(f"{run.output.plot_schedule}: {title}", flush=True)


def train(run: config.Run, node: NodeSpec | None) -> None:
    """Train as the command does: signals end the run, the log goes to the terminal, the last line has the scores."""
    from mxtrain.checkpoint import run_folder
    from mxtrain.train import session

    with signals.stop_requests() as stop_requests:
        if run.data.pack:  # which takes a while, and tells what it does
            run_folder.start_log(run.output.terminal_level)
        prepared = session.prepare(run, node, machine.process_began(), stop_requests=stop_requests)
        run_folder.start_log(run.output.terminal_level)
        ended = session.train(prepared, stop_requests)
        if ended.is_first:
            checkpoint, score = ended.resumed_from, ended.score
            if ended.has_happened:
                _log_diagnosis(ended.out)
            print(
                end_line(ended.out, score) if ended.has_happened else nothing_done_line(checkpoint, score),
                flush=True,
            )


def _log_diagnosis(out: Path) -> None:
    """Log what is most wrong with a run that has ended well, if anything is; that is no reason for it to fail."""
    from mxtrain.report import diagnosis

    try:
        remark = diagnosis.remark(out)
    except Exception:
        logger.debug("the run cannot be diagnosed", exc_info=True)
    else:
        if remark:
            logger.info("%s", remark)


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
    path, state = checkpoint[:2]
    evaluations = run_folder.evaluations(path.resolve().parent.parent, state["step"])
    samples = "the samples of --overfit" if state["config"].get("overfit") else state["config"]["val"]
    scores = f"{score_text(evaluations, score)}, on {samples}" if evaluations else "no evaluation"
    return f"done before, nothing is written: {scores}; {path}"


def score_text(evaluations: Sequence[dict[str, Any]], score: Score) -> str:
    """Return the scores of the last evaluation and of the best one; of equals the newest is best, as in evaluate."""
    from mxtrain.train.library.result import best_of

    key = f"val_{score.name}"
    last, best = evaluations[-1], best_of(evaluations, score)
    is_best = "the best" if best is last else best and f"best {best[key]:.4f} at step {best['step']}"
    shown = ", ".join(
        f"{name.replace('_', ' ')} {'not finite' if last[name] is None else format(last[name], '.4f')}"
        for name in dict.fromkeys((key, "val_loss"))
    )
    return f"{shown} at step {last['step']}, {is_best or 'none is finite'}"


def dry_run(run: config.Run) -> None:
    """Print what would be trained, or why it would be refused; no run folder is made."""
    from mxtrain.checkpoint import resume
    from mxtrain.optim import schedules
    from mxtrain.train import session

    inputs = session.open_inputs(run)
    resume_point = resume.find(run, inputs.identity, run.layout.num_workers)
    run = session.begun(run, inputs, resume_point and resume_point.checkpoint)
    job = session.job_of(run, inputs, resume_point and resume_point.checkpoint)
    rate_of = schedules.rate_function(run.optim, job.plan.length, job.task.objects)
    rate_of(0)  # a schedule of the user's own is tried

    from mxtrain import runtime
    from mxtrain.checkpoint import run_folder

    run_folder.start_log(run.output.terminal_level)
    runtime.load(threads=run.layout.threads or None)
    from mxtrain.train.net import build_net, dry_run

    with build_net.compiling(run.model.amp):
        net = dry_run.description(job)
    begin = [f"resuming from {resume_point.checkpoint.path}"] if resume_point else []
    print("\n".join([*session.plan_lines(job, inputs), *begin, net.parameters, *net.memory]), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
