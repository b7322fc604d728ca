"""A shortage of memory: how Python, MXNet and Linux report it, and the end of a process that nobody else would end.

Owns the signs of a shortage, the limits that a process is under, and the hooks that end it where an exception reaches
no code of ours. Does not own the sentence in which a command says so (`core/errors.py`).
"""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import re
import signal
import sys
import threading
from pathlib import Path
from typing import Any, Callable, Iterator

logger = logging.getLogger(__name__)

# A thread needs memory for its stack; MXNet, which starts them in C++, gives the system's words for it.
SIGNS = re.compile(
    r"bad_alloc|(?:[Uu]nable to|[Cc]annot|Failed to) allocate|[Oo]ut of memory|Insufficient memory"
    r"|failed to map segment|start new thread|start watchdog thread|MXNetError: Resource temporarily unavailable"
)
LIMITS = {"Max address space": "ulimit -v", "Max data size": "ulimit -d"}
LITTLE_BYTES = 4 << 30  # of addresses: a small net's worker takes 2 GB of them on two cores, more on others
RESERVE_BYTES = 1 << 20
MOST_CAUSES = 10  # an exception may be among its own causes
LOOK_SECONDS, START_LOOKS = 0.5, 4


def shortage_in(error: BaseException | None) -> BaseException | None:
    """Return the exception that says that memory has run out: this one, or one that caused it; None without any."""
    for _ in range(MOST_CAUSES):
        if error is None or _says_so(error):
            return error
        error = error.__cause__
    return None


def _says_so(error: BaseException) -> bool:
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno == errno.ENOMEM
    # MXNetError is a RuntimeError, OpenCV's error is none.
    may_say_so = isinstance(error, (ImportError, OSError, RuntimeError)) or type(error).__module__ == "cv2"
    return may_say_so and SIGNS.search(f"{type(error).__name__}: {error}") is not None


@contextlib.contextmanager
def ending_process(line: str, exit_code: int) -> Iterator[None]:
    """A block in which a shortage that no code takes ends the process at once, with `line` on stderr.

    A thread that is short of memory in its first lines dies before it has told the one that started it, which waits
    for ever; so may whoever waits for what any other thread, or a function that C code calls, has not done.
    """
    last_words, reserve = f"{line}\n".encode(), [bytes(RESERVE_BYTES)]
    unraisable, in_thread = sys.unraisablehook, threading.excepthook

    def end() -> None:
        reserve.clear()
        try:
            os.write(2, last_words)
        finally:
            os._exit(exit_code)

    def on_unraisable(caught: Any) -> None:
        if issubclass(caught.exc_type, MemoryError) or shortage_in(caught.exc_value):
            end()
        unraisable(caught)

    def on_thread(caught: Any) -> None:
        if issubclass(caught.exc_type, MemoryError) or shortage_in(caught.exc_value):
            end()
        in_thread(caught)

    sys.unraisablehook, threading.excepthook = on_unraisable, on_thread
    is_over = threading.Event()
    watch = threading.Thread(target=_watch_starts, args=(is_over, end), name="memory", daemon=True)
    watch.start()
    try:
        yield
    finally:
        is_over.set()
        watch.join(LOOK_SECONDS)
        sys.unraisablehook, threading.excepthook = unraisable, in_thread


def _watch_starts(is_over: threading.Event, end: Callable[[], None]) -> None:
    """Call `end` once a thread has been started for START_LOOKS looks and not begun, until `is_over`.

    Where not even the hooks above can run, for a thread's first frame is what has no room, this is all that is seen.
    Looks are counted and not seconds, as a frozen process makes none.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are the main thread's
    num_looks: dict[threading.Thread, int] = {}
    while not is_over.wait(LOOK_SECONDS):
        starting = [each for each in threading.enumerate() if each.ident is None]
        num_looks = {each: num_looks.get(each, 0) + 1 for each in starting}
        if START_LOOKS in num_looks.values():
            end()


def limits(pid: int) -> dict[str, int]:
    """Return the bytes that a process may take, by the command that sets each limit; it may have ended just now."""
    found = {}
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/limits").read_text().splitlines():
            soft = line[26:].split()[0]
            if line[:26].strip() in LIMITS and soft.isdecimal():
                found[LIMITS[line[:26].strip()]] = int(soft)
    return found


@functools.lru_cache(maxsize=None)
def warn_of_limits() -> None:
    """Log once that this process may take little memory: called before a library of C++ is loaded.

    There a shortage is a segmentation fault, after which nobody could say so.
    """
    little = {command: limit for command, limit in limits(os.getpid()).items() if limit < LITTLE_BYTES}
    if little:
        logger.warning("memory is limited to %s; too little of it ends MXNet", in_words(little))


def in_words(limited: dict[str, int]) -> str:
    """Return limits as a person reads them, as in `2.0 GB (ulimit -v)`; empty without any."""
    return " and ".join(f"{limit / 1e9:.1f} GB ({command})" for command, limit in limited.items())


def num_killed() -> int:
    """Return how many processes Linux has killed since its start because memory had run out."""
    with contextlib.suppress(OSError):
        found = re.search(r"^oom_kill (\d+)$", Path("/proc/vmstat").read_text(), re.MULTILINE)
        return int(found[1]) if found else 0
    return 0
