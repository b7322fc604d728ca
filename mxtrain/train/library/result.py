"""Result of a run for a Python program."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Sequence

from mxtrain.checkpoint import directory, run_folder
from mxtrain.config import Run
from mxtrain.config.program_objects import NO_OBJECTS, ProgramObjects
from mxtrain.report.sinks.record import BEGINNINGS, ENDS
from mxtrain.train.session import Ended

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block
    from mxtrain.tasks.task import Score
    from mxtrain.train.next_action import Ending


@dataclasses.dataclass(frozen=True, repr=False)
class Result:
    """Outcome of a run: `evaluate` and `predict` take it in the place of a run folder.

    Attributes:
        net: the Gluon net as the last step left it, on the devices of the run; one that was given is trained in place.
        history: the records of all steps and evaluations of the run, as in metrics.jsonl, which has others too
            (docs/records.md): dicts of `kind` "train" or "eval", also of the parts before a resume.
        best: the evaluation with the best score, None where none has a finite one.
        checkpoint: the folder of the checkpoint with the best score, or of the newest where none has a finite one.
        run: the run as it was trained, plain data: for an object that `fit` was given it has a text.
        score: the name of the number in an evaluation by which evaluations are compared, as "val_accuracy".
        stopped: why the run was stopped before its end, None where it was not; the same call goes on from there.
        ended: how this call has ended: "done", "early stop", "stopped by a hook" or, where the run had ended before,
            "nothing left to do".
        objects: the objects that `fit` was given in the place of names, for `evaluate` and `predict`.
    """

    net: Block
    history: list[dict[str, Any]]
    best: dict[str, Any] | None
    checkpoint: Path
    run: Run
    score: str = ""
    stopped: str | None = None
    ended: Ending = "done"
    objects: ProgramObjects = NO_OBJECTS

    def __repr__(self) -> str:
        epochs = max((each["epoch"] for each in self.history), default=0)
        best = [f"{self.score} {self.best[self.score]:.4g}"] if self.best else []
        shown = ", ".join([f"{epochs} epoch{'s' * (epochs != 1)}", *best, self.ended])
        return f"<Result {self.run.output.out}: {shown}>"


def from_ended_run(ended: Ended) -> Result:
    """Return the result of a run that has ended."""
    folder = ended.out / "checkpoints"
    if ended.resumed_from is not None and not ended.has_happened:
        folder = ended.resumed_from.path.resolve().parent
    found = directory.best(folder)
    assert found is not None, "a run that has ended has saved"
    records = run_folder.records(folder.parent)
    history = [each for each in records if each["kind"] in ("train", "eval")]
    evaluations = [record for record in history if record["kind"] == "eval"]
    best = best_of(evaluations, ended.score)
    ends = [each for each in records if each.get("event") in (*BEGINNINGS, *ENDS)]
    stopped = ends[-1].get("reason") if ends else None
    score = f"val_{ended.score.name}"
    return Result(
        _net(ended), history, best, found.path, ended.run, score, stopped, ended.ending, ended.objects
    )


def _net(ended: Ended) -> Any:
    """Return the net of a run: one that was given is that, though --remat trains it inside of another."""
    own = ended.objects.get("--model", ended.run.model.model)
    return own if hasattr(own, "collect_params") else ended.net


def best_of(evaluations: Sequence[dict[str, Any]], score: Score) -> dict[str, Any] | None:
    """Return the evaluation with the best score, of equals the newest; None where none has a finite one."""
    key, sign = f"val_{score.name}", -1 if score.is_lower_better else 1
    scored = [each for each in reversed(evaluations) if each.get(key) is not None]
    return max(scored, key=lambda each: sign * each[key], default=None)
