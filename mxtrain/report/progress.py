"""The progress of a long command: a bar on a terminal, else a plain line now and then; for training and packing.

A terminal that goes away or fails does not end the command.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import time
from typing import Any, Iterator, TextIO

LINE_SECONDS = 30.0
WIDTH, HEIGHT = 80, 20  # of a terminal that knows none: one that a script or a container has opened


class ProgressDisplay:
    """Shows how many of `total` units are done on `stream`, None where it was closed; `done` were done before."""

    def __init__(self, stream: TextIO | None, total: int, done: int = 0, unit: str = "step"):
        self._stream, self._total = stream, total
        self._first: tuple[int, float] | None = None
        self._last_line = time.monotonic()
        self._bar: Any = None
        with self._ignoring_failures():
            if stream is not None and stream.isatty():
                self._bar = _bar(stream, total=total, initial=done, unit=unit)

    def update(self, done: int, text: str, beside: str = "", every_seconds: float | None = None) -> None:
        """Show that `done` units are done: `beside` the bar, or in a line that begins with `text`.

        A line is printed when the last one is `every_seconds` ago, by default 30.
        """
        with self._ignoring_failures():
            if self._bar is not None:
                self._bar.update(done - self._bar.n)
                if beside:
                    self._bar.set_postfix_str(beside)
                return
            now = time.monotonic()
            self._first = self._first or (done, now)
            if now - self._last_line >= (LINE_SECONDS if every_seconds is None else every_seconds):
                self.print_line(text + self._time_left(done, now))
                self._last_line = now

    def print_line(self, text: str) -> None:
        """Print `text` as a line of its own, above the bar where there is one."""
        with self._ignoring_failures():
            if self._bar is not None:
                self._bar.write(text, file=self._stream)
            elif self._stream is not None:
                print(text, file=self._stream, flush=True)

    def close(self) -> None:
        with self._ignoring_failures():
            if self._bar is not None:
                self._bar.close()

    def _time_left(self, done: int, now: float) -> str:
        """Return the time that the remaining units will take at the pace so far, for a line."""
        first_done, first_time = self._first or (done, now)
        if done == first_done or done >= self._total:
            return ""
        seconds = (now - first_time) / (done - first_done) * (self._total - done)
        return f", {datetime.timedelta(seconds=round(seconds))} left"

    @contextlib.contextmanager
    def _ignoring_failures(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError):  # whoever read it is gone; the command goes on
            self._stream, self._bar = None, None


def _bar(stream: TextIO, **described: Any) -> Any:
    """Return tqdm's bar, always as wide as the terminal; a width or height of 0 would show nothing."""
    from tqdm import tqdm

    bar = tqdm(file=stream, ncols=_width(stream), nrows=HEIGHT, **described)
    bar.dynamic_ncols = lambda _: (_width(stream), HEIGHT)
    return bar


def _width(stream: TextIO) -> int:
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    asked = os.environ.get("COLUMNS", "")
    return columns or (int(asked) if asked.isdecimal() else 0) or WIDTH
