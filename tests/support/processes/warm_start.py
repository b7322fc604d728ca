"""Commands in processes that have mxnet already, forked from one that has loaded it.

A start of mxnet costs a second of CPU time and more, and tests start processes by the hundred. A forked process differs
from a user's in nothing that follows the import. Starts as a user's are what faults are tested with, clusters over
several hosts, and for each command at least one end of every kind: well, in a refusal, stopped, killed.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
import types
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any, Callable, NoReturn, Sequence
from unittest import mock

PRELOADED = "tests.support.processes.warm_imports"
MODULES = (
    *(
        "mxtrain.fit",
        "mxtrain.evaluate",
        "mxtrain.predict",
        "mxtrain.export",
        "mxtrain.tune",
        "mxtrain.convert",
    ),
    "tools.im2rec_wrapper",
)
# Variables that no command reads before mxnet is loaded: of tests, and of packages that set them when imported.
OF_TESTS = ("PYTEST_CURRENT_TEST", "NOTES")
# Set wherever mxnet is loaded.
OF_RUNTIME = ("MXNET_CPU_TEMP_COPY", "MXNET_CPU_PARALLEL_SIZE", "NNVM_AUTO_SEARCH_MATCH_RANGE")
OF_PACKAGES = ("KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK", "CRC32C_SW_MODE", *OF_RUNTIME)
ENVIRONMENT: dict[str, str] = {}  # before any test changed it


@functools.lru_cache(maxsize=None)
def _context() -> Any:
    """Return what starts the processes; mxnet is loaded in the environment that all tests have in common."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOADED])
    with mock.patch.dict(os.environ, ENVIRONMENT, clear=True):
        forkserver.ensure_running()
    return context


def helpers() -> set[int]:
    """Return the processes of multiprocessing itself that stay as long as this one: no test has started them."""
    pids = (forkserver._forkserver._forkserver_pid, resource_tracker._resource_tracker._pid)  # type: ignore[attr-defined]
    return {pid for pid in pids if pid is not None}


def is_possible(module: str, arguments: list[str]) -> bool:
    """Return whether a process that has mxnet already does the same: none where variables of a test's own steer it."""
    now = {name: value for name, value in os.environ.items() if name not in (*OF_TESTS, *OF_PACKAGES)}
    threads = [value for flag, value in zip(arguments, arguments[1:]) if flag == "--threads"]
    return module in MODULES and now == ENVIRONMENT and set(threads) <= {os.environ["OMP_NUM_THREADS"]}


class ForkedProcess:
    """A process that calls `target` with `given`; to its user like a Popen, whose output is in `streams`."""

    def __init__(
        self, context: Any, target: Callable[..., NoReturn], *given: object, streams: Sequence[Path] = ()
    ):
        self.args: list[str] = []
        self._streams = streams
        self._process = context.Process(target=target, args=given)
        self._process.start()
        self.pid: int = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._process.exitcode  # type: ignore[no-any-return]

    def poll(self) -> int | None:
        """As `returncode`."""
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return its exit code; raises TimeoutExpired after `timeout` seconds."""
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0, *map(_content, self._streams))
        return self.returncode


class WarmFunction(ForkedProcess):
    """A call of `target`, which can be pickled, in a process that has mxnet; what it prints is added to `log`.

    It has this process's umask and environment, changed by `environment`.
    """

    def __init__(self, target: Callable[[], object], log: Path, **environment: str):
        given = {**os.environ, **environment}, _umask(), log, log, target
        super().__init__(_context(), _become, *given, streams=[log, log])


class WarmProcess(ForkedProcess):
    """`python -m module arguments` in `folder`, under way in a process that has mxnet."""

    def __init__(self, module: str, arguments: list[str], folder: Path):
        self._outputs = tempfile.TemporaryDirectory()
        streams = [Path(self._outputs.name, name) for name in ("stdout", "stderr")]
        command = functools.partial(be_command, module, arguments, folder)
        super().__init__(_context(), _become, dict(os.environ), _umask(), *streams, command, streams=streams)
        self.args = [module, *arguments]

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end, as `wait`, and return what it has written to stdout and to stderr."""
        self.wait(timeout)
        stdout, stderr = (_content(path).decode() for path in self._streams)
        return stdout, stderr

    def __enter__(self) -> WarmProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()
        self.wait()
        self._outputs.cleanup()


class _ForkedCommand(ForkedProcess):
    """What starts `python -m MODULE ARGUMENTS` in the place of `subprocess.Popen` where this process has mxnet."""

    def __init__(
        self, line: Sequence[str], env: dict[str, str], stdin: Any, stdout: Any, stderr: Any, **options: bool
    ):
        assert options == {"start_new_session": True} and line[:2] == (sys.executable, "-m"), (line, options)

        def be() -> NoReturn:
            os.setsid()
            for number, file in enumerate((stdin, stdout, stderr)):
                os.dup2(file.fileno(), number)
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
                signal.signal(number, signal.SIG_DFL)
            sys.argv[1:] = line[3:]
            _end_with(env, functools.partial(runpy.run_module, line[2], run_name="__main__", alter_sys=True))

        super().__init__(multiprocessing.get_context("fork"), be)


def run(module: str, arguments: list[str], folder: Path, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run `python -m module arguments` in `folder`; raises TimeoutExpired, and ends it, after `timeout` seconds."""
    with WarmProcess(module, arguments, folder) as process:
        texts = process.communicate(timeout)
        return subprocess.CompletedProcess(process.args, process.wait(), *texts)


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask


def be_command(module: str, arguments: Sequence[str], folder: Path) -> None:
    """Be `python -m module arguments`; the processes of a cluster or a search that it starts are forked from this."""
    from mxtrain.launch import attempt
    from mxtrain.tune import trial_process

    popen = types.SimpleNamespace(Popen=_ForkedCommand, TimeoutExpired=subprocess.TimeoutExpired)
    for starting in (attempt, trial_process):
        vars(starting)["subprocess"] = popen
    os.chdir(folder)
    sys.path.insert(0, str(folder))  # as `python -m` does
    sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _become(
    environment: dict[str, str], umask: int, stdout: Path, stderr: Path, target: Callable[[], object]
) -> NoReturn:
    """Be a process of its own that calls `target`: in the child."""
    os.umask(umask)
    for path, number in ((stdout, 1), (stderr, 2)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    _end_with(environment, target)


def _end_with(environment: dict[str, str], target: Callable[[], object]) -> NoReturn:
    """Call `target` in this environment, and end as an interpreter ends."""
    os.environ.clear()
    os.environ.update(environment)
    code: Any = 0
    try:
        target()
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    if not (code is None or isinstance(code, int)):
        print(code, file=sys.stderr)
        code = 1
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code or 0)
