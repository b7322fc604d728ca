"""`python -m mxtrain.evaluate`: how good a trained net is on a .rec file."""

from __future__ import annotations

import json
from typing import Sequence

from mxtrain import trained
from mxtrain.errors import UsageError, one_line


def main(argv: Sequence[str] | None = None) -> int:
    return one_line("mxtrain.evaluate", lambda: evaluate(argv))


def evaluate(argv: Sequence[str] | None = None) -> None:
    parser = trained.parser("python -m mxtrain.evaluate", "Evaluate a trained net.")
    parser.add_argument("--val", help="the .rec file; the run's own --val when left out")
    options = parser.parse_args(argv)

    from mxtrain.data import labels
    from mxtrain.data.sets import open_set
    from mxtrain.train import resume

    _, state = resume.of_run(options.run, options.checkpoint)
    path = options.val or state["config"]["val"]
    if path is None:
        raise UsageError("--val is missing: the run had none, give a .rec file")
    records = open_set(path)
    labels.check(records, state["class_names"])
    net, contexts, run, _ = trained.open_net(options)

    from mxtrain.train import evaluate

    found = evaluate.evaluate(run, net, records, contexts)
    if options.json:
        print(json.dumps(found))
    else:
        print(f"{path}: " + ", ".join(f"{name} {value:.6g}" for name, value in found.items()))


if __name__ == "__main__":
    raise SystemExit(main())
