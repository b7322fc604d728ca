"""`python -m mxtrain.fit`: train a net.

The command's order is its purpose: everything that can be refused is refused before mxnet is loaded.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Sequence

from mxtrain import config, layout
from mxtrain.errors import Stop, one_line
from mxtrain.train import signals

logger = logging.getLogger("mxtrain.fit")


def main(argv: Sequence[str] | None = None) -> int:
    def command() -> None:
        run = config.parse(argv)
        if run.keep.plot_schedule:
            plot_schedule(run)
            return
        with signals.wishes() as wishes:
            fit(run, wishes)

    return one_line("mxtrain.fit", command)


def plot_schedule(run: config.Run) -> None:
    """Draw what the learning rate will do; without data, --max-steps are taken for all --epochs."""
    from mxtrain import checks
    from mxtrain.report import plots
    from mxtrain.train import schedules
    from mxtrain.train.given import open_source

    checks.check_description(run)
    steps_per_epoch, num_steps = run.optim.max_steps / run.optim.epochs, run.optim.max_steps
    if run.data.train:
        samples = open_source("--train", run.data.train, run)
        steps_per_epoch, num_steps = schedules.length(run.optim, len(samples))
    rate_of = schedules.of_run(run.optim, steps_per_epoch, num_steps)
    title = schedules.describe(run.optim, steps_per_epoch, num_steps)
    plots.draw_rates(
        Path(run.keep.plot_schedule), [rate_of(step) for step in range(num_steps)], steps_per_epoch, title
    )
    print(f"{run.keep.plot_schedule}: {title}", flush=True)


def fit(run: config.Run, wishes: list[Stop]) -> None:
    """Train; `wishes` fills when a signal asks for the end."""
    from mxtrain import checks, run_folder
    from mxtrain.data import cache, labels, visits
    from mxtrain.train import origins, resume, schedules
    from mxtrain.train.given import open_source

    checks.check(run)
    train = open_source("--train", str(run.data.train), run)
    val = open_source("--val", run.data.val, run) if run.data.val else None
    class_names = labels.class_names(train, val, run.data.num_classes)
    data = {**resume.describe(train, class_names), **origins.describe(run, class_names)}
    plan = [
        f"{train.path}: {len(train)} samples, {len(class_names)} classes",
        str(layout.batch_plan(run)),
        schedules.describe(run.optim, *schedules.length(run.optim, len(train))),
    ]
    if run.keep.dry_run:
        _tell(run, plan, len(class_names))
        return
    with run_folder.held(run) as out:
        resume_from = resume.find(run, data)
        run_folder.describe(run)
        for line in plan:
            logger.info("%s", line)
        kept_train, kept_val = cache.kept(run.data, train, out), val and cache.kept(run.data, val, out)
        if run.optim.overfit:
            kept_val = visits.Overfitted(run, kept_train)

        from mxtrain import runtime

        runtime.load(threads=run.layout.threads or None)
        from mxtrain.train import loop

        loop.run(run, kept_train, kept_val, data, resume_from, wishes)
        found = run_folder.last_evaluation(out)
    score = f"val accuracy {found['val_accuracy']:.4f}, val loss {found['val_loss']:.4f}; " if found else ""
    print(f"done: {score}{out / 'checkpoints'}, {out / 'metrics.jsonl'}, {out / 'config.yaml'}", flush=True)


def _tell(run: config.Run, plan: list[str], num_classes: int) -> None:
    """What would be trained; no run folder is made."""
    from mxtrain import run_folder, runtime

    run_folder.start_log(run.keep.log_level)
    runtime.load(threads=run.layout.threads or None)
    from mxtrain.train import dry_run

    print("\n".join([*plan, dry_run.describe(run, num_classes)]), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
