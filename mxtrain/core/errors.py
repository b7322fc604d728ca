"""How a command ends: the exit codes, and the exceptions that carry them.

Owns the contract between mxtrain and the scripts around it. Whatever a user can put right is raised as one of
these, with one sentence that names the file, flag or node and says what to do; `one_line` prints it without a
traceback. Anything else is our bug and keeps its traceback; what the user's own code raises keeps it too, with a
last line that names the flag by which that code came.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import sys
import traceback
from typing import Any, Callable, Iterable, Iterator

DONE, BUG, USAGE, DATA, DIVERGED, RESTART_ME = 0, 1, 2, 3, 4, 75
SIGINT, SIGTERM = 130, 143
LINE = "_line_of_mxtrain"  # on an exception of the user's code
CURES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO), "make room"),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise ulimit -n"),
}


class Stop(Exception):
    """Ends the command with one line on stderr and `exit_code`."""

    exit_code = 1


class UsageError(Stop):
    """A flag, a config or this machine cannot do what was asked."""

    exit_code = USAGE


class Scarce(UsageError):
    """This machine has run out of something, of room say: once there is more, the same command goes on."""


class DataError(Stop):
    """A file holds something other than what it should."""

    exit_code = DATA


class Diverged(Stop):
    """Training left the numbers behind."""

    exit_code = DIVERGED


class RestartMe(Stop):
    """Nothing is wrong with the request: the same command again continues the run."""

    exit_code = RESTART_ME


class Stopped(Stop):
    """A signal asked the run to end, and it did so: after a checkpoint, once it had begun.

    Or the disk is full, where that, too, leaves something to go on from.
    """

    def __init__(self, message: str, exit_code: int):
        super().__init__(message)
        self.exit_code = exit_code


def one_line(program: str, command: Callable[[], object]) -> int:
    """Run a command; turn a Stop into its line and its exit code."""
    try:
        _run(command)
    except Stop as stop:
        return _say(f"{program}: {stop}", stop.exit_code)
    except KeyboardInterrupt:
        return _say(f"{program}: stopped by Ctrl-C", SIGINT)
    except BrokenPipeError:  # whoever read our output has gone, as in `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except Exception as error:
        scarce = as_stop(error)
        if scarce is not None:
            return _say(f"{program}: {scarce}", scarce.exit_code)
        if of_user(error) is None:
            raise
        traceback.print_exc()
        return _say(f"{program}: {told(error)}", BUG)
    return DONE


def as_stop(error: BaseException) -> Stop | None:
    """The Stop that an exception is, or stands for where this machine has run out of something; None for a bug."""
    if isinstance(error, OSError) and error.errno in CURES:
        where = error.filename or _unnamed(error)
        return UsageError(f"{where}: {error.strerror}; {CURES[error.errno]} and give the same command again")
    return error if isinstance(error, Stop) else None


@contextlib.contextmanager
def in_code_of(user: str) -> Iterator[None]:
    """A block in which the user's code runs: what it raises is told with `user`, the flag and what was given to it."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, Stop) and of_user(error) is None:
            mark(error, f"{user}: {_words(error)}")
        raise


def naming(user: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The user's function, in such a block whenever it is called."""
    return functools.partial(_call, user, function)  # which can be sent to a process where `function` can


def _call(user: str, function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    with in_code_of(user):
        return function(*arguments, **keywords)


def mark(error: Exception, line: str | None) -> None:
    """Have an error told by this line, where it stands for another one that came from the user's code."""
    if line is not None:
        setattr(error, LINE, line)


def told(error: BaseException) -> str:
    """Any error in one line, after the flag whose code of the user's it came from."""
    return of_user(error) or _words(error)


def of_user(error: BaseException | None) -> str | None:
    """The line of the error itself, or of what caused it; None where it came from no code of the user's."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        line: str | None = getattr(error, LINE, None)
        if line is not None:
            return line
        seen.append(error)
        error = error.__cause__
    return None


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _run(command: Callable[[], object]) -> None:
    """The command with all that it prints; what fails at the interpreter's own end is no line of ours."""
    try:
        command()
    except SystemExit:
        print(end="", flush=True)
        raise
    print(end="", flush=True)


def _unnamed(error: OSError) -> str:
    """What a write failed on whose error names no file."""
    try:
        print(end="", flush=True)  # what a failed write has left in the buffer fails again
        os.write(1, b"")  # where nothing is buffered: /dev/full refuses even this
    except OSError as again:
        if again.errno == error.errno:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # it would fail once more at the interpreter's end
            return "standard output"
    return "a file of this run"


def _say(line: str, exit_code: int) -> int:
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)
    return exit_code


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'a' or 'b'?` for the known names close to this one, or an empty string."""
    import difflib

    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    return "; did you mean " + " or ".join(f"'{c}'" for c in close) + "?" if close else ""
