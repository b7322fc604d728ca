"""Flags of the run folder, checkpoints and logs."""

from __future__ import annotations

import dataclasses

from mxtrain.config.components import metrics
from mxtrain.config.components.sinks import CONSOLE, NONE, SINKS
from mxtrain.config.sections.flag import flag


@dataclasses.dataclass(frozen=True)
class Output:
    """The run folder, checkpoints and logs."""

    out: str = flag("runs/latest", "the run folder")
    mirror: str = flag(
        "",
        "a folder in an object store for a copy of the run folder, as s3://bucket/runs/photos",
    )
    resume: str = flag(
        "auto", "auto: continue from the run folder's newest checkpoint | never | PATH of a checkpoint"
    )
    checkpoint_steps: int = flag(0, "save every so many updates, besides after each epoch; 0: off")
    checkpoint_minutes: float = flag(0.0, "save every so many minutes, besides those; 0: off")
    evaluate_steps: int = flag(
        0, "evaluate every so many updates, besides after each epoch; 0: off; needs --val"
    )
    metric: str = flag(
        "",
        f"what evaluations tell besides, joined by commas: {metrics.in_words()}; with numbers as in topk:k=3; or "
        "module:callable",
    )
    score: str = flag(
        "",
        "the number of an evaluation, as in loss or macro_f1, by which checkpoints are the best and --early-stop ends; "
        "left out: the task's own; needs --val",
    )
    sample_steps: int = flag(
        50,
        "look closely at every so many steps, and at 2, 5, 10, 20: at layers, workers, forward and backward; 0: off",
    )
    keep_last: int = flag(2, "how many of the newest checkpoints are kept")
    keep_best: int = flag(1, "how many of the best checkpoints are kept besides")
    log: str = flag(
        "console",
        f"sinks beside metrics.jsonl, joined by commas: {', '.join(name for name in SINKS if name != NONE)}, "
        f"module:callable; or {NONE}",
    )
    profile: str = flag(
        "",
        "write what these steps' time goes into, as in 100:110, as a trace, logs/profile.json in the run folder, and "
        "print the costliest operators and layers",
    )
    dry_run: bool = flag(False, "print the plan and a table of the parameters, and stop")
    plot_schedule: str = flag("", "draw the rate over all steps of the run into this PNG, and stop")
    log_level: str = flag("info", "how much is logged on stderr: debug | info | warning")
    quiet: bool = flag(
        False, "nothing but errors on stderr, and the last line; logs/fit.log has the rest all the same"
    )

    @property
    def sinks(self) -> tuple[str, ...]:
        """The names of the sinks beside metrics.jsonl."""
        unwanted = (NONE, CONSOLE) if self.quiet else (NONE,)
        return tuple(name for name in self.log.split(",") if name not in unwanted)

    @property
    def terminal_level(self) -> str:
        """The level from which on the log goes to stderr."""
        return "error" if self.quiet else self.log_level
