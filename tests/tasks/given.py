"""A case with its data, and commands on them: runs of a few steps."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from tests.support.commands import Command
from tests.support.processes.warm_start import WarmProcess
from tests.support.runs import kill_at, warm_started
from tests.tasks.cases import Case

# 6 steps an epoch, each of 4 micro-batches; an evaluation of 7, and the last of them is short.
SHORT = "--batch-size 16 --micro-batch 4 --epochs 3 --threads 1 --log none"
NUM_TRAIN, NUM_VAL = 96, 26


@dataclasses.dataclass(frozen=True)
class Given:
    """A case, its data in `folder`, and commands on them."""

    case: Case
    folder: Path
    command: Command

    def line(self, out: Path, flags: str, train: str = "train.rec") -> list[str]:
        sets = ["--train", str(self.folder / train), "--val", str(self.folder / "val.rec"), "--out", str(out)]
        return [*sets, *self.case.flags.split(), *SHORT.split(), *flags.split()]

    def fit(self, out: Path, flags: str = "", train: str = "train.rec", code: int = 0) -> str:
        """Train, to the end with this exit code, and return what is said on stderr."""
        done = self.command("mxtrain.fit", *self.line(out, flags, train))
        assert done.returncode == code, done.stderr
        return done.stderr

    def kill_at(self, step: int, out: Path, flags: str) -> None:
        """Train until the record of this step, and be killed there."""
        kill_at(step, out.parent / f"{out.name}.log", *self.line(out, flags))

    def started(self, out: Path, flags: str) -> WarmProcess:
        return warm_started(*self.line(out, flags))
