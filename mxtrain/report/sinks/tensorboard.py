"""Records as TensorBoard's event files: numbers as scalars, events as text and as points at their steps."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

from mxtrain.report.sinks.record import Record, numbers
from mxtrain.report.sinks.sink import Logged

FLUSH_SECONDS = 30.0  # from events in memory to the file


def open_sink(run: Logged) -> TensorBoard:
    """Return the event file of an attempt of a run."""
    return TensorBoard(run.out / "logs" / "tensorboard", last_step=run.step)


class TensorBoard:
    """Writes an event file into `folder`, one for each attempt.

    Not by SummaryWriter's thread: that dies of a full disk, and the next writer then waits for ever.
    """

    def __init__(self, folder: Path, last_step: int):
        from tensorboardX import event_file_writer, summary
        from tensorboardX.proto.event_pb2 import Event, SessionLog

        self._event, self._text = Event, summary.text
        folder.mkdir(parents=True, exist_ok=True)
        # Two attempts in one second would have one name; readers take the files in the order of their names.
        number = len(list(folder.glob("events.out.tfevents.*")))
        self._writer = event_file_writer.EventsWriter(str(folder / "events"), f".{number:06d}")
        begin = Event(step=last_step + 1, session_log=SessionLog(status=SessionLog.START))
        self._add(begin)  # hides an earlier attempt's records of the steps from there on
        self._flush()

    def write(self, record: Record) -> None:
        event = self._event(step=record["step"])
        if record["kind"] == "event":
            name = record["event"]
            event.summary.MergeFrom(self._text("events", f"**{name}**: {record['text']}"))
            event.summary.value.add(tag=f"events/{name}", simple_value=record.get("attempt", 1))
        else:
            for name, value in numbers(
                record
            ).items():  # not by summary.scalar, which takes ten times as long
                event.summary.value.add(tag=name, simple_value=value)
        self._add(event)
        # At a checkpoint too: what a killed run resumes behind is in the file.
        if record["kind"] == "event" or time.monotonic() - self._flushed_seconds >= FLUSH_SECONDS:
            self._flush()

    def close(self) -> None:
        file = self._writer._py_recordio_writer._writer
        # On a full disk the first fails as it flushes, and leaves the file open, as Python would say.
        for close in (self._writer.close, file.close):
            with contextlib.suppress(OSError):
                close()

    def _add(self, event: Any) -> None:
        event.wall_time = time.time()
        self._writer.write_event(event)

    def _flush(self) -> None:
        self._flushed_seconds = time.monotonic()
        self._writer.flush()
