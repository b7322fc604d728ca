"""Ctrl-C, SIGTERM and SIGHUP for commands while they are not training.

Owns the handlers of a command that imports, and of one that does not train. Does not own a training worker's stop
requests (`train/signals.py`) nor the supervisor's (`launch/attempt.py`). Imports next to nothing, as each command
comes here before it imports anything else.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import sys
import time
from typing import Any, Iterator, NoReturn

# timeout(1) and others signal their child and then its whole group: one stop request and not two.
SAME_REQUEST_SECONDS = 0.1
MEANING = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}
deferred: list[tuple[int, float]] = []  # the signal that came before `train/signals.py` took over, and when


def is_ignored(number: int) -> bool:
    """Return whether a command leaves a signal alone: SIGHUP under nohup."""
    return number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN


def is_second(number: int, first_seconds: float) -> bool:
    """Return whether a signal, after the first one at `first_seconds`, asks for the end at once.

    SIGHUP never does: for one terminal that closes the shell sends it, and Linux once more when the shell ends.
    """
    return number != signal.SIGHUP and time.monotonic() - first_seconds > SAME_REQUEST_SECONDS


def exit_on_signal(program: str) -> None:
    """Have a signal end this process at once, with one line that names `program`: there is nothing to lose yet.

    An exception would not do while modules are imported: NumPy makes an ImportError and a page of advice of it.
    A server or scheduler of a job keeps the default action, which its supervisor takes for what it is.
    """
    if os.environ.get("DMLC_ROLE"):
        _handle(signal.SIG_DFL)
        return

    def end(number: int, frame: object) -> None:
        _exit(f"{program}: stopped by {MEANING[signal.Signals(number)]}", number)

    _handle(end)


def defer_signal(program: str) -> None:
    """Defer a worker's first signal to `train/signals.py`: the others of its job have to learn of it.

    A second signal ends the process, with one line that names `program`.
    """

    def defer(number: int, frame: object) -> None:
        if not deferred:
            deferred.append((number, time.monotonic()))
        elif is_second(number, deferred[0][1]):
            _exit(f"{program}: left at once, on a second signal", number)

    signal.signal(signal.SIGUSR1, defer)
    _handle(defer)


def exit_if_deferred(program: str) -> None:
    """End this process on a deferred signal: the scheduler, whose address is not known yet, cannot learn of it."""
    if deferred:
        number = deferred[0][0]
        _exit(f"{program}: stopped by {signal.Signals(number).name}", number)


@contextlib.contextmanager
def stopped_by_signal(program: str, grace_seconds: float | None = None) -> Iterator[None]:
    """Raise `Stopped` in the block on the first signal, so that it can clean up; end the process on any after it.

    After the block there is only waiting for threads, which any signal ends. Neither takes longer than
    `grace_seconds`, where that is given.

    Python only prints what is raised in a finalizer, and those of MXNet's arrays run all the time: `Stopped` is then
    raised again outside of it. Other code may take it, or break on it, as the start of a thread does: `Stopped` leaves
    the block all the same.
    """
    from mxtrain.core.errors import Stop, Stopped

    first_seconds: list[float] = []
    stopped: list[Stopped] = []
    main_thread, report_unraisable = _thread.get_ident(), sys.unraisablehook

    def raise_again(unraisable: Any) -> None:
        if unraisable.exc_value not in stopped:
            report_unraisable(unraisable)
            return
        first_seconds.clear()
        # By another thread: here this one is still in the finalizer's end, where nothing can be raised.
        _thread.start_new_thread(_send_until_taken, (stopped[0].exit_code - 128, main_thread, first_seconds))

    def stop(number: int, frame: object) -> None:
        name = MEANING[signal.Signals(number)]
        if not first_seconds:
            first_seconds.append(time.monotonic())
            stopped[:] = [Stopped(f"stopped by {name}", 128 + number)]
            raise stopped[0]
        if is_second(number, first_seconds[0]):
            _exit(f"{program}: left at once, on {name}", number)

    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    arguments = reading, main_thread, first_seconds, program, grace_seconds
    _thread.start_new_thread(_see_to_signal, arguments)
    sys.unraisablehook = raise_again
    _handle(stop)
    try:
        yield
        if stopped:
            raise stopped[0]
    except Exception as error:
        if not stopped or isinstance(error, Stop):
            raise
        raise stopped[0] from error
    finally:
        first_seconds.append(float("-inf"))
        sys.unraisablehook = report_unraisable


def _see_to_signal(
    pipe: int, main_thread: int, first_seconds: list[float], program: str, grace_seconds: float | None
) -> None:
    """Wait for a signal, see to it that the main thread takes it, and end the process after `grace_seconds`.

    Python runs handlers in its main thread only. If that goes to sleep at the very moment of a signal, or another
    thread receives the signal, it sleeps on: for ever, where it waits for a disk that does not answer.
    """
    number = os.read(pipe, 1)[0]  # written by Python's C handler, whatever the main thread does
    _send_until_taken(number, main_thread, first_seconds)
    if grace_seconds is not None:
        time.sleep(grace_seconds)
        _exit(f"{program}: left what has not ended in {grace_seconds:g} s", number)


def _send_until_taken(number: int, main_thread: int, first_seconds: list[float]) -> None:
    """Send a signal to the main thread, again and again, until its handler has run there or there is no need."""
    time.sleep(SAME_REQUEST_SECONDS / 2)
    while not first_seconds:
        signal.pthread_kill(main_thread, number)
        time.sleep(SAME_REQUEST_SECONDS / 2)


def _handle(handler: Any) -> None:
    """Set the handler of all signals that have a meaning here."""
    for number in MEANING:
        if not is_ignored(number):
            signal.signal(number, handler)


def _exit(line: str, number: int) -> NoReturn:
    from mxtrain.core.errors import RESTART_ME

    # No print: this may have come in the middle of one. No sys.exit: C++ aborts where its threads still run.
    try:
        os.write(2, f"{line}\n".encode())
    finally:  # also where nobody reads any more
        os._exit(RESTART_ME if number == signal.SIGUSR1 else 128 + number)
