"""Commands in processes that have mxnet already, forked from one that has loaded it.

A start of mxnet costs two seconds of CPU time, and tests start commands by the hundred. A forked process differs from
a user's in nothing that follows the import; starts as a user's are what every cluster, kill and refusal is tested with.
"""

from __future__ import annotations

import atexit
import functools
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
import traceback
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any

PRELOADED = "tests.support.warm_imports"
MODULES = ("mxtrain.fit", "mxtrain.evaluate", "mxtrain.predict")


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


def run(module: str, arguments: list[str], folder: Path, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run `python -m module arguments` in `folder`; raises TimeoutExpired, and ends it, after `timeout` seconds."""
    with tempfile.TemporaryDirectory() as outputs:
        stdout, stderr = Path(outputs, "stdout"), Path(outputs, "stderr")
        process = _context()[0].Process(target=_main, args=(module, arguments, folder, stdout, stderr))
        process.start()
        process.join(timeout)
        if process.is_alive():
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired([module, *arguments], timeout, None, stderr.read_bytes())
        texts = [path.read_text() if path.exists() else "" for path in (stdout, stderr)]
        return subprocess.CompletedProcess([module, *arguments], process.exitcode, *texts)


def _main(module: str, arguments: list[str], folder: Path, stdout: Path, stderr: Path) -> None:
    """Be `python -m module`: in the child, which ends here as an interpreter ends."""
    for path, number in ((stdout, 1), (stderr, 2)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
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
