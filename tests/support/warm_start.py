"""Commands in processes that have mxnet already, forked from one that has loaded it.

A start of mxnet costs two seconds of CPU time, and tests start commands by the hundred. A forked process differs from
a user's in nothing that follows the import. Starts as a user's are what every cluster is tested with, and for each
command at least one end of every kind: well, in a refusal, stopped, killed.
"""

from __future__ import annotations

import atexit
import functools
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any

PRELOADED = "tests.support.warm_imports"
MODULES = ("mxtrain.fit", "mxtrain.evaluate", "mxtrain.predict", "tools.im2rec_wrapper")


@functools.lru_cache(maxsize=None)
def _context() -> tuple[Any, dict[str, str]]:
    """Return what starts the processes, and the environment in which the first of them has loaded mxnet."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOADED])
    return context, dict(os.environ)


def helpers() -> set[int]:
    """Return the processes of multiprocessing itself that stay as long as this one: no test has started them."""
    pids = (forkserver._forkserver._forkserver_pid, resource_tracker._resource_tracker._pid)  # type: ignore[attr-defined]
    return {pid for pid in pids if pid is not None}


def is_possible(module: str, arguments: list[str]) -> bool:
    """Return whether a process that has mxnet already does the same: none where variables of a test's own steer it."""
    environment = {name: value for name, value in _context()[1].items() if name != "PYTEST_CURRENT_TEST"}
    now = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    return (
        module in MODULES
        and now == environment
        and not any(each.startswith("dist_") or each == "--threads" for each in arguments)
    )


class WarmProcess:
    """`python -m module arguments` in `folder`, under way in a forked process; to its user like a Popen."""

    def __init__(self, module: str, arguments: list[str], folder: Path):
        self.args = [module, *arguments]
        self._outputs = tempfile.TemporaryDirectory()
        self._streams = [Path(self._outputs.name, name) for name in ("stdout", "stderr")]
        self._process = _context()[0].Process(target=_main, args=(module, arguments, folder, *self._streams))
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

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end, as `wait`, and return what it has written to stdout and to stderr."""
        self.wait(timeout)
        stdout, stderr = (_content(path).decode() for path in self._streams)
        return stdout, stderr

    def __enter__(self) -> WarmProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()
        self._process.join()
        self._outputs.cleanup()


def run(module: str, arguments: list[str], folder: Path, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run `python -m module arguments` in `folder`; raises TimeoutExpired, and ends it, after `timeout` seconds."""
    with WarmProcess(module, arguments, folder) as process:
        texts = process.communicate(timeout)
        return subprocess.CompletedProcess(process.args, process.wait(), *texts)


def _content(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _main(module: str, arguments: list[str], folder: Path, stdout: Path, stderr: Path) -> None:
    """Be `python -m module`: in the child, which ends here as an interpreter ends."""
    for path, number in ((stdout, 1), (stderr, 2)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    sys.path.insert(0, str(folder))  # as `python -m` does
    sys.argv[1:] = arguments
    code: Any = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
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
