"""`python -m mxtrain.fit`: train a net.

The command's order is its purpose: everything that can be refused is refused before mxnet is loaded.
"""

from __future__ import annotations

import sys
from typing import Sequence

from mxtrain import config
from mxtrain.errors import one_line


def main(argv: Sequence[str] | None = None) -> int:
    return one_line("mxtrain.fit", lambda: fit(config.parse(argv)))


def fit(run: config.Run) -> None:
    from mxtrain import checks, layout, run_folder
    from mxtrain.data import labels
    from mxtrain.data.records import open_records
    from mxtrain.train import resume

    checks.check(run)
    train = open_records(str(run.data.train))
    val = open_records(run.data.val) if run.data.val else None
    class_names = labels.class_names(train, val, run.data.num_classes)
    resume_from = resume.find(run)
    out = run_folder.prepare(run)
    print(
        f"{train.path}: {len(train)} samples, {len(class_names)} classes; {layout.batch_plan(run)}",
        file=sys.stderr,
    )

    from mxtrain import runtime

    runtime.load(threads=run.layout.threads or None)
    from mxtrain.train import loop

    loop.run(run, train, val, class_names, resume_from)
    found = run_folder.last_evaluation(out)
    score = f"val accuracy {found['val_accuracy']:.4f}, val loss {found['val_loss']:.4f}; " if found else ""
    print(f"done: {score}{out / 'checkpoints'}, {out / 'metrics.jsonl'}, {out / 'config.yaml'}")


if __name__ == "__main__":
    raise SystemExit(main())
