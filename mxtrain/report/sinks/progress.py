"""The progress of a long command: one live line on a terminal, else a plain line now and then.

For training, evaluating, filling a cache and packing. Owns the terminal's last line: whoever prints above it does so in
`hidden()`. A terminal that goes away or fails does not end the command.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import sys
import threading
import time
from typing import Callable, Iterable, Iterator, Sequence, TextIO, TypeVar

T = TypeVar("T")

LINE_SECONDS = 30.0
DRAW_SECONDS = 0.1
WIDTH = 80  # of a terminal that knows none: one that a script or a container has opened
BAR = 8, 30  # the fewest and the most columns
CLEAR = "\r\x1b[J"  # from the begin of the line to the end of the screen

_live: list[ProgressDisplay] = []  # on terminals; the last one is drawn
_lock = threading.RLock()


def _forget() -> None:
    """Leave the line to the parent, in a process that was forked from one that draws."""
    global _lock
    _lock = threading.RLock()
    _live.clear()


os.register_at_fork(after_in_child=_forget)


@contextlib.contextmanager
def hidden() -> Iterator[None]:
    """A block that prints lines, which come out above the live line where there is one."""
    with _lock:
        if _live:
            _live[-1]._clear()
        try:
            yield
        finally:
            if _live:
                _live[-1]._draw()


class ProgressDisplay:
    """Shows how many of `total` units are done on `stream`, None where it was closed; `done` were done before.

    `unit` has a {} for the number of them.
    """

    def __init__(
        self, stream: TextIO | None, total: int, done: int = 0, unit: str = "step {}", label: str = ""
    ):
        self._stream, self._total, self._done = stream, total, done
        self._unit, self._label = unit, label
        self._beside: tuple[str, ...] = ()
        self._first: tuple[int, float] | None = None
        self._last_line = self._last_drawn = time.monotonic()
        self._num_columns = 0  # that the line has now
        self._is_live = False
        with self._ignoring_failures():
            self._is_live = stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
        if self._is_live:
            with hidden():
                _live.append(self)

    def update(
        self,
        done: int,
        text: str,
        beside: Sequence[str] = (),
        every_seconds: float | None = None,
        label: str = "",
    ) -> None:
        """Show that `done` units are done, in the live line or in one that begins with `text`.

        In the live line `label` comes before and `beside` after, the most important first. A plain line is printed when
        the last one is `every_seconds` ago, by default 30.
        """
        now = time.monotonic()
        self._first = self._first or (done, now)
        self._done, self._beside, self._label = done, tuple(beside), label or self._label
        if self._is_live:
            with _lock:
                if self is _live[-1] and (now - self._last_drawn >= DRAW_SECONDS or done >= self._total):
                    self._draw()
        elif now - self._last_line >= (LINE_SECONDS if every_seconds is None else every_seconds):
            left = self._time_left(now)
            self.print_line(f"{text}, {left}" if left else text)
            self._last_line = now

    def print_line(self, text: str) -> None:
        """Print `text` as a line of its own, above the live line where there is one."""
        with hidden(), self._ignoring_failures():
            if self._stream is not None:
                print(text, file=self._stream, flush=True)

    def close(self, stays: bool = True) -> None:
        """End the live line: it stays as it is now, or goes."""
        with _lock:
            if self not in _live:
                return
            if stays:
                self._draw()
                with self._ignoring_failures():
                    if self._stream is not None:
                        print(file=self._stream, flush=True)
            else:
                self._clear()
            _live.remove(self)
            if _live:
                _live[-1]._draw()

    def _time_left(self, now: float) -> str:
        """Return the time that the remaining units will take at the pace so far, in words; nothing if unknown."""
        first_done, first_time = self._first or (self._done, now)
        if self._done == first_done or self._done >= self._total:
            return ""
        seconds = (now - first_time) / (self._done - first_done) * (self._total - self._done)
        return f"{datetime.timedelta(seconds=round(seconds))} left"

    def _draw(self) -> None:
        with self._ignoring_failures():
            if self._stream is not None:
                now = time.monotonic()
                width = _width(self._stream) - 1  # in the last column some terminals begin a new line
                blocks = "█░" if (getattr(self._stream, "encoding", "") or "").lower() == "utf-8" else "#."
                count = self._unit.format(f"{self._done}/{self._total}")
                share = self._done / self._total if self._total else 1.0
                line = fitted(width, share, self._label, count, self._beside, self._time_left(now), blocks)
                self._clear()
                self._stream.write(line)
                self._stream.flush()
                self._num_columns, self._last_drawn = len(line), now

    def _clear(self) -> None:
        """Clear the line, and what is left of it above where the terminal has become narrower than it is."""
        with self._ignoring_failures():
            if self._stream is not None:
                num_above = max(0, self._num_columns - 1) // _width(self._stream)
                self._stream.write((f"\x1b[{num_above}A" if num_above else "") + CLEAR)
                self._num_columns = 0

    @contextlib.contextmanager
    def _ignoring_failures(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError):  # whoever read it is gone; the command goes on
            self._stream = None


def fitted(
    width: int, share: float, label: str, count: str, beside: Sequence[str], left: str, blocks: str = "█░"
) -> str:
    """Return a line no wider than `width`: what matters least goes first, and a bar takes what room is left."""
    candidates = [(label, count, *beside[:number], left) for number in range(len(beside), 0, -1) or (0,)]
    candidates += [(count, *beside[:1], left), (count, left), (count,)]
    for words in candidates:
        text = "  ".join(filter(None, words))
        if len(text) <= width:
            break
    else:
        return text[:width]
    room = min(width - len(text) - 2, BAR[1])
    if room < BAR[0]:
        return text
    full = int(room * min(1.0, share))
    return text + "  " + blocks[0] * full + blocks[1] * (room - full)


def counted(
    on_progress: Callable[[bool], None], stream: TextIO | None, label: str, unit: str
) -> Callable[..., None]:
    """Return `on_progress(has_moved, done, total)` that also shows how many are done, where that is told."""
    display: ProgressDisplay | None = None

    def report(has_moved: bool, done: int = 0, total: int = 0) -> None:
        nonlocal display
        try:
            on_progress(has_moved)
        except BaseException:
            if display is not None:
                display.close()
            raise
        if total and display is None:
            display = ProgressDisplay(stream, total, 0, f"{{}} {unit}", label)
        if display is not None:
            display.update(done, f"{label}: {done} of {total} {unit}")
            if done >= total:
                display.close()
                display = None

    return report


def with_progress(
    items: Iterable[T], num_expected: int, num_before: int = 0, unit: str = "images", shows: bool = True
) -> Iterator[T]:
    """Yield the same items, and show on stderr how many have passed; an earlier run had `num_before` of them."""
    progress = ProgressDisplay(sys.stderr if shows else None, num_expected, num_before, f"{{}} {unit}")
    started = time.monotonic()
    try:
        for count, item in enumerate(items, 1):
            yield item
            rate = count / max(time.monotonic() - started, 1e-9)
            done = num_before + count
            rate_text = f"{rate:.0f} a second"
            progress.update(done, f"{done} of {num_expected} {unit}, {rate_text}", [rate_text])
    finally:
        progress.close()


def _width(stream: TextIO) -> int:
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    variable = os.environ.get("COLUMNS", "")
    return columns or (int(variable) if variable.isdecimal() else 0) or WIDTH
