"""Sinks of a run's records: metrics.jsonl is the truth, the others show it.

A record is a plain dict with `kind` (train or eval), `step` and `epoch`. A sink has `write(record)` and `close()`.
Owns no number: what is measured comes from the loop.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, Protocol, TextIO

from mxtrain.errors import UsageError

Record = Dict[str, Any]


class Sink(Protocol):
    def write(self, record: Record) -> None: ...

    def close(self) -> None: ...


class JsonLines:
    """One JSON object a line, whole after every record.

    On resume, lines past the checkpoint are cut away: no step appears twice and none is missing.
    """

    def __init__(self, path: Path, last_step: int):
        kept = [line for line in _whole_lines(path) if json.loads(line)["step"] <= last_step]
        aside = path.with_name(path.name + ".writing")
        aside.write_text("".join(line + "\n" for line in kept))
        aside.replace(path)
        self.file = path.open("a", buffering=1)

    def write(self, record: Record) -> None:
        # JSON has no NaN: what is not finite is null.
        finite = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in record.items()}
        self.file.write(json.dumps(finite) + "\n")

    def close(self) -> None:
        self.file.close()


def _whole_lines(path: Path) -> list[str]:
    """The lines of the file; a last one that a kill cut short is not one."""
    if not path.exists():
        return []
    text = path.read_text()
    return text[: text.rfind("\n") + 1].splitlines()


class Console:
    """A progress bar on a terminal, a plain line now and then elsewhere."""

    def __init__(
        self, num_steps: int, first_step: int, stream: TextIO = sys.stderr, every_seconds: float = 10.0
    ):
        self.stream, self.num_steps, self.every_seconds = stream, num_steps, every_seconds
        self.last_line = -every_seconds
        self.bar: Any = None
        if stream.isatty():
            from tqdm import tqdm

            self.bar = tqdm(total=num_steps, initial=first_step, unit="step", file=stream, dynamic_ncols=True)

    def write(self, record: Record) -> None:
        if record["kind"] == "eval":
            self._line(f"epoch {record['epoch']}: " + ", ".join(_shown(record, ("val_loss", "val_accuracy"))))
        elif self.bar is not None:
            self.bar.update(record["step"] - self.bar.n)
            self.bar.set_postfix_str(", ".join(_shown(record, ("loss", "lr"))))
        elif time.monotonic() - self.last_line >= self.every_seconds or record["step"] == self.num_steps:
            shown = ", ".join(_shown(record, ("loss", "accuracy", "lr", "images_per_second")))
            self._line(f"epoch {record['epoch']} step {record['step']}/{self.num_steps}: {shown}")
            self.last_line = time.monotonic()

    def close(self) -> None:
        if self.bar is not None:
            self.bar.close()

    def _line(self, text: str) -> None:
        if self.bar is not None:
            self.bar.write(text, file=self.stream)
        else:
            print(text, file=self.stream, flush=True)


def _shown(record: Record, names: Any) -> list[str]:
    return [f"{name} {record[name]:.4g}" for name in names if name in record]


class TensorBoard:
    """The same numbers as TensorBoard scalars."""

    def __init__(self, folder: Path, last_step: int):
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise UsageError("--log tensorboard needs tensorboardX: pip install 'mxtrain[logging]'") from None
        self.writer = SummaryWriter(str(folder), purge_step=last_step + 1)

    def write(self, record: Record) -> None:
        for name, value in record.items():
            if name not in ("kind", "step", "epoch", "time") and isinstance(value, (int, float)):
                self.writer.add_scalar(f"{record['kind']}/{name}", value, record["step"])

    def close(self) -> None:
        self.writer.close()


@contextlib.contextmanager
def open_sinks(names: str, out: Path, num_steps: int, first_step: int) -> Iterator[Callable[[Record], None]]:
    """A function that writes a record to metrics.jsonl and to what `--log` names."""
    sinks: list[Sink] = [JsonLines(out / "metrics.jsonl", last_step=first_step)]
    if "console" in names.split(","):
        sinks.append(Console(num_steps, first_step))
    if "tensorboard" in names.split(","):
        sinks.append(TensorBoard(out / "logs" / "tensorboard", last_step=first_step))

    def write(record: Record) -> None:
        for sink in sinks:
            sink.write(record)

    try:
        yield write
    finally:
        for sink in sinks:
            sink.close()
