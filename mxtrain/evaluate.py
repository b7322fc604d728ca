"""`python -m mxtrain.evaluate`: loss and metrics of a trained net on a data set; as a function, `evaluate`."""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from mxtrain.core import interrupts

    interrupts.exit_on_signal("mxtrain.evaluate")

import json
from typing import Any, Sequence

from mxtrain.checkpoint.directory import Checkpoint
from mxtrain.config import Run
from mxtrain.config.arguments import Parser
from mxtrain.core.errors import DataError, UsageError, one_line
from mxtrain.train import trained_run

__all__ = ["evaluate", "main"]


def evaluate(
    trained: Any,
    *,
    val: Any = None,
    checkpoint: str = "best",
    devices: str = "cpu",
    net: Any = None,
    loss: Any = None,
    task: Any = None,
    metric: Any = None,
) -> dict[str, Any]:
    """Return the scores of a trained net on a data set, by name: `val_loss`, those of the task, and `num_samples`.

    Args:
        trained: a run folder, or the `Result` of `fit`.
        val: the data set, as `fit` takes it; the run's own when left out.
        checkpoint: "best", "latest", or the path of one.
        devices: as in `fit`'s flag, "cpu:0,1" for instance.
        net: in the place of the run's, which a folder does not hold if it was an object. It gets the checkpoint's
            weights, and afterwards its own again if it has some.
        loss: the same for the loss.
        task: the same for the task.
        metric: the same for the metrics.

    Raises:
        UsageError, DataError: as the command says them, see `mxtrain.core.errors`.
    """
    from mxtrain.train import guest

    with guest.as_guest():
        found = trained_run.find_checkpoint(trained, checkpoint, devices)
        run = trained_run.run_of(
            found, trained, {"val": val, "model": net, "loss": loss, "task": task, "metric": metric}
        )
        return _scores(found, run, devices, is_own=val is None)


def main(argv: Sequence[str] | None = None) -> int:
    return one_line("mxtrain.evaluate", lambda: command(argv))


def command(argv: Sequence[str] | None = None) -> None:
    """Print the scores of the net that the arguments name."""
    options = parser().parse_args(argv)

    from mxtrain.checkpoint import run_folder

    run_folder.start_log("warning")  # or mxnet's logging would put its marks before our lines
    found = trained_run.find_checkpoint(options.run, options.checkpoint, options.devices)
    run = trained_run.run_of(found, options.run, {"val": options.val or None, "metric": options.metric})
    scores = _scores(found, run, options.devices, is_own=not options.val)
    if options.json:
        print(json.dumps(scores))
    else:
        print(f"{run.data.val}: " + ", ".join(f"{name} {value:.6g}" for name, value in scores.items()))


def parser() -> Parser:
    """Return the parser of this command's flags."""
    flags = trained_run.parser("evaluate", "Evaluate a trained net.")
    flags.add_argument("--val", help="the .rec file or files; the run's own --val when left out")
    flags.add_argument(
        "--metric", help="what to tell besides, as for mxtrain.fit; the run's own when left out"
    )
    return flags


def _scores(found: Checkpoint, run: Run, devices: str, is_own: bool) -> dict[str, Any]:
    """Return the scores of a checkpoint's net on the data set of `run`, which is the checkpoint's own if `is_own`."""
    from mxtrain.train.open_data import open_source

    if run.data.val is None:
        raise UsageError("--val is missing: the run had none, give a .rec file")
    try:
        records = open_source("--val", run.data.val, run)
    except DataError as error:
        if not is_own:
            raise
        raise DataError(f"{error} (this is the run's own --val; if that has moved, give --val)") from None
    task = trained_run.task_of(found, run)
    task.check(records)
    with trained_run.net_of(found, run, devices) as (net, contexts):
        from mxtrain.tasks import find as tasks
        from mxtrain.train import evaluate

        scores = evaluate.evaluate(
            run, task, tasks.function_of(task, task.plain_forward), net, records, contexts
        )
    assert scores is not None, "nobody asks this evaluation to stop"
    return scores


if __name__ == "__main__":
    raise SystemExit(main())
