"""`python -m mxtrain.evaluate`: loss and accuracy of a trained net on a data set."""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from mxtrain.core import interrupts

    interrupts.exit_on_signal("mxtrain.evaluate")

import json
from typing import Sequence

from mxtrain import config
from mxtrain.checkpoint import locations
from mxtrain.config.arguments import Parser
from mxtrain.core.errors import DataError, UsageError, one_line
from mxtrain.train import trained_run


def main(argv: Sequence[str] | None = None) -> int:
    return one_line("mxtrain.evaluate", lambda: evaluate(argv))


def evaluate(argv: Sequence[str] | None = None) -> None:
    """Print the scores of the net that the arguments name."""
    options = parser().parse_args(argv)

    from mxtrain.checkpoint.input_identity import description_of
    from mxtrain.tasks import find as tasks
    from mxtrain.train.open_data import open_source

    checkpoint = trained_run.find_checkpoint(options)
    state = checkpoint.state
    run = config.from_flat(state["config"])
    path = options.val or run.data.val
    if path is None:
        raise UsageError("--val is missing: the run had none, give a .rec file")
    locations.make_importable(
        checkpoint, run.model.task, run.model.model, run.model.loss, *([] if options.val else [path])
    )
    try:
        records = open_source("--val", path, run)
    except DataError as error:
        if options.val:
            raise
        raise DataError(f"{error} (this is the run's own --val; if that has moved, give --val)") from None
    task = tasks.of_description(run, description_of(state))
    task.check(records)
    net, contexts = trained_run.open_net(checkpoint, options.devices)

    from mxtrain.train import evaluate

    scores = evaluate.evaluate(run, task, task.plain_forward(), net, records, contexts)
    assert scores is not None, "nobody asks this evaluation to stop"
    if options.json:
        print(json.dumps(scores))
    else:
        print(f"{path}: " + ", ".join(f"{name} {value:.6g}" for name, value in scores.items()))


def parser() -> Parser:
    """Return the parser of this command's flags."""
    flags = trained_run.parser("evaluate", "Evaluate a trained net.")
    flags.add_argument("--val", help="the .rec file or files; the run's own --val when left out")
    return flags


if __name__ == "__main__":
    raise SystemExit(main())
