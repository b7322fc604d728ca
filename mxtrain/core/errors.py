"""The exit codes of commands, and the exceptions that carry them.

Owns the contract between mxtrain and the scripts around it. What a user can put right is raised as one of these
exceptions, with one sentence that names the file, flag or node and says what to do; `one_line` prints it without a
traceback. Any other exception is a bug of ours and keeps its traceback. An exception of the user's own code keeps its
traceback too, followed by a line that names the flag through which that code came.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import logging
import os
import sys
import traceback
from typing import Any, Callable, Iterable, Iterator, TypeVar

from mxtrain.core.system import out_of_memory

DONE, BUG, USAGE, DATA, DIVERGED, RESTART_ME = 0, 1, 2, 3, 4, 75
SIGHUP, SIGINT, SIGTERM = 129, 130, 143
MESSAGE_ATTRIBUTE = "_mxtrain_message"  # on an exception of the user's code
REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO), "make room"),
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "raise ulimit -n"),
}
OUT_OF_MEMORY = "memory has run out"
MEMORY_REMEDY = (
    "give each process more, or let it take less (in training by --micro-batch, --prefetch-mb, --remat)"
)

Answer = TypeVar("Answer")  # of a function of the user's


class Stop(Exception):
    """Ends the command with one line on stderr and `exit_code`."""

    exit_code = 1


class UsageError(Stop):
    """A flag, a config or this machine cannot do what was asked."""

    exit_code = USAGE


class OutOfResources(UsageError):
    """This machine has run out of disk space, file descriptors or the like; with more, the same command resumes."""


class DataError(Stop):
    """A file's content is not what it should be."""

    exit_code = DATA


class Diverged(Stop):
    """The loss or the gradients have become too large or not finite."""

    exit_code = DIVERGED


class RestartMe(Stop):
    """Nothing is wrong with the request: the same command again continues the run."""

    exit_code = RESTART_ME


class OutOfMemory(RestartMe):
    """Memory has run out, perhaps to another program: the same command may well go on."""

    def __init__(self, error: BaseException):
        """Say so, with the words of the exception by which it was noticed."""
        super().__init__(f"{OUT_OF_MEMORY} ({_type_and_text(error)}); {MEMORY_REMEDY}")


class Stopped(Stop):
    """The run ended early and can be continued: after a signal, or because the disk is full."""

    def __init__(self, message: str, exit_code: int):
        super().__init__(message)
        self.exit_code = exit_code


class StopTraining(Exception):
    """Raised by a hook of `fit(...)` to end its run after a checkpoint."""


def one_line(program: str, command: Callable[[], object]) -> int:
    """Run a command and return its exit code; a Stop is printed as one line, after the program's name."""
    node = os.environ.get("MXTRAIN_NODE") or os.environ.get("DMLC_ROLE")
    name = f"{program}: {node}" if node else program
    try:
        with out_of_memory.ending_process(f"{name}: {OUT_OF_MEMORY}; {MEMORY_REMEDY}", RESTART_ME):
            _run(command)
    except Stop as stop:
        return _print_stop(program, stop)
    except KeyboardInterrupt:
        return _print_line(f"{program}: stopped by Ctrl-C", SIGINT)
    except BrokenPipeError:  # whoever read our output has gone, as in `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except Exception as error:
        if isinstance(error, OSError) and _is_of_closed_terminal(error):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return DONE
        shortage = as_stop(error)
        if shortage is not None:
            return _print_stop(program, shortage)
        if user_message(error) is None:
            raise
        traceback.print_exc()
        return _print_line(f"{program}: {message_of(error)}", BUG)
    finally:
        _give_up_a_stderr_without_reader()
    return DONE


def as_stop(error: BaseException) -> Stop | None:
    """Return the Stop that an exception is, or amounts to where this machine ran out of resources; None for a bug."""
    if isinstance(error, OSError) and error.errno in REMEDIES:
        where = error.filename or _unnamed_file(error)
        return OutOfResources(
            f"{where}: {error.strerror}; {REMEDIES[error.errno]} and give the same command again"
        )
    if isinstance(error, Stop):
        return error
    shortage = out_of_memory.shortage_in(error) if user_message(error) is None else None
    return OutOfMemory(shortage) if shortage is not None else None


@contextlib.contextmanager
def in_user_code(flag: str) -> Iterator[None]:
    """A block that runs the user's code: its exceptions are reported with `flag`, such as `--loss own:loss`."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, (Stop, StopTraining)) and user_message(error) is None:
            attach_user_message(error, f"{flag}: {_type_and_text(error)}")
        raise


def as_user_code(flag: str, function: Callable[..., Answer]) -> Callable[..., Answer]:
    """Return the user's function, wrapped so that each call is in such a block; it pickles if `function` does."""
    return functools.partial(_call, flag, function)


def _call(flag: str, function: Callable[..., Answer], *arguments: Any, **keywords: Any) -> Answer:
    with in_user_code(flag):
        return function(*arguments, **keywords)


def attach_user_message(error: Exception, message: str | None) -> None:
    """Report `error` by this message, if any: for one that stands for an exception of the user's code elsewhere."""
    if message is not None:
        setattr(error, MESSAGE_ATTRIBUTE, message)


def message_of(error: BaseException) -> str:
    """Return one line for any exception; it begins with the flag if the user's code raised it."""
    return user_message(error) or _type_and_text(error)


def user_message(error: BaseException | None) -> str | None:
    """Return the message attached to an exception or to one of its causes; None if no code of the user's raised it."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        message: str | None = getattr(error, MESSAGE_ATTRIBUTE, None)
        if message is not None:
            return message
        seen.append(error)
        error = error.__cause__
    return None


def _type_and_text(error: BaseException) -> str:
    return ": ".join(filter(None, (type(error).__name__, " ".join(str(error).split()))))


def _run(command: Callable[[], object]) -> None:
    """Run the command and flush what it printed: a failure at the interpreter's end could not be reported."""
    try:
        command()
    except SystemExit:
        _flush()
        raise
    _flush()


def _flush() -> None:
    """Flush standard output; a terminal that has closed meanwhile is no reason for another exit code."""
    try:
        print(end="", flush=True)
    except OSError as error:
        if not _is_of_closed_terminal(error):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _is_of_closed_terminal(error: OSError) -> bool:
    try:
        os.write(1, b"")  # which a file takes
    except OSError as again:
        return error.errno == again.errno == errno.EIO and error.filename is None
    return False


def _unnamed_file(error: OSError) -> str:
    """Return a name for the file of an error that names none: standard output, if that is what is full."""
    try:
        print(end="", flush=True)  # what a failed write has left in the buffer fails again
        os.write(1, b"")  # where nothing is buffered: /dev/full refuses even this
    except OSError as again:
        if again.errno == error.errno:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # it would fail once more at the interpreter's end
            return "standard output"
    return "a file of this run"


def _give_up_a_stderr_without_reader() -> None:
    """Send nowhere what nobody reads: from 3.14 on Python fails for it as it ends, with a code of its own, 120."""
    try:
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _print_stop(program: str, stop: Stop) -> int:
    code = _print_line(f"{program}: {stop}", stop.exit_code)
    if isinstance(stop, OutOfMemory) and "mxnet" in sys.modules:
        # MXNet waits at the end of Python for threads of its own, and for ever for those that had no room to begin.
        logging.shutdown()
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        os._exit(code)
    return code


def _print_line(line: str, exit_code: int) -> int:
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)
    return exit_code


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'a' or 'b'?` for the known names close to `name`, or an empty string.

    The dashes of flags do not count: by them every flag would be a little like every other.
    """
    import difflib

    plain = {each.lstrip("-"): each for each in known}
    close = difflib.get_close_matches(name.lstrip("-"), plain, n=3, cutoff=0.6)
    return "; did you mean " + " or ".join(f"'{plain[c]}'" for c in close) + "?" if close else ""
