"""`python -m mxtrain.fit`: train a net.

The command's order is its purpose: everything that can be refused is refused before mxnet is loaded.
"""

from __future__ import annotations

import logging
from typing import Sequence

from mxtrain import config, layout
from mxtrain.errors import Stop, one_line
from mxtrain.train import signals

logger = logging.getLogger("mxtrain.fit")


def main(argv: Sequence[str] | None = None) -> int:
    def command() -> None:
        with signals.wishes() as wishes:
            fit(config.parse(argv), wishes)

    return one_line("mxtrain.fit", command)


def fit(run: config.Run, wishes: list[Stop]) -> None:
    """Train; `wishes` fills when a signal asks for the end."""
    from mxtrain import checks, run_folder
    from mxtrain.data import cache, labels
    from mxtrain.train import resume
    from mxtrain.train.given import open_source

    checks.check(run)
    train = open_source("--train", str(run.data.train), run)
    val = open_source("--val", run.data.val, run) if run.data.val else None
    class_names = labels.class_names(train, val, run.data.num_classes)
    data = resume.describe(train, class_names)
    with run_folder.held(run) as out:
        resume_from = resume.find(run, data)
        run_folder.describe(run)
        logger.info("%s: %d samples, %d classes", train.path, len(train), len(class_names))
        logger.info("%s", layout.batch_plan(run))
        kept_train, kept_val = cache.kept(run.data, train, out), val and cache.kept(run.data, val, out)

        from mxtrain import runtime

        runtime.load(threads=run.layout.threads or None)
        from mxtrain.train import loop

        loop.run(run, kept_train, kept_val, data, resume_from, wishes)
        found = run_folder.last_evaluation(out)
    score = f"val accuracy {found['val_accuracy']:.4f}, val loss {found['val_loss']:.4f}; " if found else ""
    print(f"done: {score}{out / 'checkpoints'}, {out / 'metrics.jsonl'}, {out / 'config.yaml'}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
