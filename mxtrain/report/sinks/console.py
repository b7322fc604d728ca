"""Records on the terminal: one live line, with evaluations and restarts above it; in pipes plain lines now and then."""

from __future__ import annotations

import sys
from typing import Any, Iterable, TextIO

from mxtrain.report.sinks import progress
from mxtrain.report.sinks.record import Record
from mxtrain.report.sinks.sink import OF_PICTURES, Logged, Shown

STAGES = ("split", "load", "compute", "synchronize", "update", "other")  # of a step's wall time
SMOOTHING = 0.9  # what the share of waiting for data keeps of itself from step to step


def open_sink(run: Logged) -> Console:
    """Return the console of a run."""
    return Console(run.num_steps, run.step, shown=run.shown, num_epochs=run.num_epochs)


class Console:
    """A live line on a terminal; elsewhere a plain line at the first step and the last, and now and then between."""

    def __init__(
        self,
        num_steps: int,
        first_step: int,
        stream: TextIO | None = None,
        every_seconds: float = progress.LINE_SECONDS,
        shown: Shown = OF_PICTURES,
        num_epochs: int = 0,
    ):
        self._shown, self._num_epochs = shown, num_epochs
        self._of_step = ("loss", *shown.step_means, "lr", f"{shown.unit}_per_second")
        self.num_steps, self.first_step, self.every_seconds = num_steps, first_step, every_seconds
        self.epoch: int | None = None
        self._stream = stream if stream is not None else sys.stderr  # None where it was closed
        self.progress = progress.ProgressDisplay(self._stream, num_steps, first_step)
        self._evaluation: progress.ProgressDisplay | None = None
        self._data_share: float | None = None

    def write(self, record: Record) -> None:
        if record["kind"] == "eval":
            self._end_evaluation()
            numbers = ", ".join(_numbers(record, self._of_evaluation(record)))
            self.progress.print_line(f"epoch {record['epoch']}: {numbers}")
        elif record["kind"] == "event" and record["event"] == "restart":
            self.progress.print_line(record["text"])
        elif record["kind"] == "train":
            self._write_step(record)

    def evaluating(self, done: int, total: int) -> None:
        """Show how many of the samples of an evaluation are done."""
        if self._evaluation is None:
            self._evaluation = progress.ProgressDisplay(self._stream, total, 0, "{} samples", "evaluating")
        self._evaluation.update(done, f"evaluating: {done} of {total} samples")

    def close(self) -> None:
        self._end_evaluation()
        self.progress.close()

    def _of_evaluation(self, record: Record) -> list[str]:
        """Return the names of an evaluation's numbers that are shown.

        Where the loss is the score the others say what it means, as perplexity does.
        """
        score = self._shown.score
        left_out = self._shown.others - {score} if score != "loss" else ()
        return [name for name in record if name.startswith("val_") and name[len("val_") :] not in left_out]

    def _end_evaluation(self) -> None:
        if self._evaluation is not None:
            self._evaluation.close(stays=False)
            self._evaluation = None

    def _write_step(self, record: Record) -> None:
        shown = _numbers(record, self._of_step)
        text = f"epoch {record['epoch']} step {record['step']}/{self.num_steps}: " + ", ".join(shown)
        label = f"epoch {record['epoch']}" + (f"/{self._num_epochs}" if self._num_epochs else "")
        every_seconds = self._every_seconds(record)
        self.progress.update(record["step"], text, self._beside(record), every_seconds, label)

    def _beside(self, record: Record) -> list[str]:
        """Return what the live line says of a step, the most important first."""
        unit = self._shown.unit
        speed, stages = record.get(f"{unit}_per_second"), [record.get(f"{name}_seconds") for name in STAGES]
        texts = _numbers(record, ("loss",))
        if speed is not None:
            texts.append(f"{speed:.4g} {unit}/s")
        seconds = [each for each in stages if each is not None]
        if len(seconds) == len(STAGES) and sum(seconds) > 0:
            share = record["load_seconds"] / sum(seconds)
            before = share if self._data_share is None else self._data_share
            self._data_share = SMOOTHING * before + (1 - SMOOTHING) * share
            texts.append(f"data {self._data_share:.0%}")
        return [*texts, *_numbers(record, ("lr", *self._shown.step_means))]

    def _every_seconds(self, record: Record) -> float:
        """Return the time from the last line after which this step gets one; less where an epoch begins."""
        begins, self.epoch = self.epoch != record["epoch"], record["epoch"]
        if record["step"] in (self.first_step + 1, self.num_steps):
            return 0.0
        return self.every_seconds / 10 if begins else self.every_seconds


def _numbers(record: Record, names: Iterable[Any]) -> list[str]:
    return [f"{name} {record[name]:.4g}" for name in names if name in record]
