"""`python -m mxtrain.evaluate`: how good a trained net is on a .rec file."""

from __future__ import annotations

import json
from typing import Sequence

from mxtrain import config, trained
from mxtrain.errors import UsageError, one_line


def main(argv: Sequence[str] | None = None) -> int:
    return one_line("mxtrain.evaluate", lambda: evaluate(argv))


def evaluate(argv: Sequence[str] | None = None) -> None:
    parser = trained.parser("python -m mxtrain.evaluate", "Evaluate a trained net.")
    parser.add_argument("--val", help="the .rec file or files; the run's own --val when left out")
    options = parser.parse_args(argv)

    from mxtrain.data import labels
    from mxtrain.train import resume
    from mxtrain.train.given import open_source

    _, state = resume.of_run(options.run, options.checkpoint)
    path = options.val or state["config"]["val"]
    if path is None:
        raise UsageError("--val is missing: the run had none, give a .rec file")
    records = open_source("--val", path, config.from_flat(state["config"]))
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
