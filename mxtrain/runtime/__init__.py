"""The only module that imports mxnet and gluoncv, and all that has to be done before and around that import.

Owns the import hook, the OpenMP threads, the shared libraries and the DMLC_ROLE guard of this process. Others write:

    from mxtrain.runtime import mx          # loads with all usable cores, unless `load` came first
    from mxtrain.runtime import gluoncv

After `import mxtrain.runtime` a plain `import mxnet` gets the same treatment, also inside other people's packages: an
import hook sees to it. Shims and facts about the machine are `core/`'s; what a role does with mxnet is `kvstore/`'s.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import importlib
import importlib.util
import logging
import os
import sys
import time
import types
import warnings
from pathlib import Path
from typing import Any, Callable, Iterator

from mxtrain.core.errors import OutOfMemory, UsageError
from mxtrain.core.system import kernels, libraries, machine, out_of_memory, wheels
from mxtrain.runtime import import_shims, mxnet_repairs, numpy_names, operator_code

log = logging.getLogger("mxtrain.runtime")
SETTLE_SECONDS = 0.1
THREADS = (
    "_mxtrain_threads"  # mxnet's attribute that says with how many it was imported, and that it was from here
)

# Of mxnet's folder: what the functions of its operators are made from.
MAKERS_OF_OPERATORS = (
    "libmxnet.so",
    "base.py",
    "ndarray_doc.py",
    "symbol_doc.py",
    "ndarray/register.py",
    "symbol/register.py",
)

MODULES_OF_LOADERS = ("mxnet.gluon.data.dataloader", "gluoncv.data.dataloader")

_operator_code: list[operator_code.OperatorCode] = []  # one, while mxnet is imported
_shares: dict[str, Any] = {"local_workers": 1, "threads": None}  # of the cores, by the last call


def load(local_workers: int = 1, threads: int | None = None) -> types.ModuleType:
    """Import mxnet once and return it; a later call returns the same module, whatever it asks for.

    Each of `local_workers` processes on this host gets its share of the cores. CPU contexts do not divide it
    further: MXNet computes for one after the other (benchmarks/threads.py contexts). `threads` overrides the
    share and the user's OMP_NUM_THREADS.
    """
    set_shares(local_workers, threads)
    return _imported("mxnet")


def set_shares(local_workers: int = 1, threads: int | None = None) -> None:
    """Set what `load` takes, for an import of mxnet that may come from somebody else's module."""
    _shares.update(local_workers=local_workers, threads=threads)


def loaded_threads() -> int | None:
    """Return with how many OpenMP threads mxnet computes an operator; None where it is not imported yet."""
    return getattr(sys.modules.get("mxnet"), THREADS, None)


def load_gluoncv() -> types.ModuleType:
    """Import gluoncv once and return it; mxnet comes first."""
    return _imported("gluoncv")


def load_gluoncv_module(name: str) -> types.ModuleType:
    """Import one module of gluoncv and return it, without the hundreds that gluoncv imports with itself.

    An `import gluoncv` that comes later finds it there.
    """
    load()
    with import_shims.unused_packages_left_out(), import_shims.bare_packages(name), _quietly():
        return _imported(name)


def _imported(name: str) -> types.ModuleType:
    """Import through the hook below; Python's lock on each module makes it safe among threads."""
    try:
        module = importlib.import_module(name)
        if getattr(module, "__file__", None) is None:
            raise ImportError(f"there is a folder called {name}, but no package in it")
        if name == "mxnet" and not hasattr(module, THREADS):
            raise UsageError(
                "mxnet was imported before mxtrain, without its repairs, threads and kernels: write `from "
                "mxtrain.runtime import mx` in the place of `import mxnet as mx`, or import mxtrain.runtime first"
            )
        return module
    except CannotImport as error:
        raise UsageError(str(error)) from error
    except ImportError as error:
        if out_of_memory.shortage_in(error):
            raise OutOfMemory(error) from error
        raise UsageError(_why_not(error)) from error


class CannotImport(ImportError):
    """mxnet or gluoncv does not import on this machine; the message says why and what to do."""


class _ImportHook:
    """A finder on sys.meta_path that runs our own code around each import of a module named in `wrappers`."""

    def __init__(self, wrappers: dict[str, Callable[[Callable[[], None]], None]]):
        self.wrappers = wrappers

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the spec that the other finders find, with its execution wrapped."""
        if name not in self.wrappers:
            return None
        others = (each for each in sys.meta_path if each is not self and hasattr(each, "find_spec"))
        found = (finder.find_spec(name, path, target) for finder in others)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            wrapper, execute = self.wrappers[name], spec.loader.exec_module
            spec.loader.exec_module = lambda module: wrapper(functools.partial(execute, module))
        return spec


def _import_mxnet(execute: Callable[[], None]) -> None:
    """Execute mxnet with the shims, libraries and variables that it needs."""
    if sys.flags.optimize > 1:
        raise CannotImport(
            "python -OO strips the docstrings that mxnet's import reads: use python -O, or neither"
        )
    out_of_memory.warn_of_limits()
    # MXNet's operators on a CPU run one after the other, and yet take turns at four workspaces, each as large as the
    # largest of them needs: 300 MB of a resnet18's 1.6 GB at 32 images. It reads this at its first operation.
    os.environ.setdefault("MXNET_CPU_TEMP_COPY", "1")
    # Of five plans for the arrays of a graph, which take no time to make, take the smallest and not the first.
    os.environ.setdefault("NNVM_AUTO_SEARCH_MATCH_RANGE", "1")
    numpy_names.restore()
    import_shims.restore_distutils()
    libraries.lend()
    installed = wheels.installed()
    if "mxnet-cu112" in installed:
        libraries.preload_cuda()
    wheel = next(
        (f"{name}-{installed[name]}" for name in ("mxnet-cu112", "mxnet") if name in installed), "mxnet"
    )
    with _explaining(), _openmp_team(**_shares) as threads, _without("DMLC_ROLE"), _quietly():
        kernels.load_openblas()
        with import_shims.unused_packages_left_out(), import_shims.without_collections(), _operator_code_kept(
            wheel
        ):
            execute()
        mxnet = sys.modules["mxnet"]
        setattr(mxnet, THREADS, threads)
        mxnet_repairs.repair(mxnet)
        # oneDNN reads its variable at its first operation, and no more.
        with kernels.onednn_variable() as is_needed:
            if is_needed:
                mxnet.nd.Activation(mxnet.nd.ones((1,)), act_type="relu").wait_to_read()
    # mxnet goes on without a broken OpenCV and dies much later, in pack_img, with a bare assertion.
    if mxnet.recordio.cv2 is None:
        _require_opencv()
    atexit.register(_settle, mxnet)


@contextlib.contextmanager
def _operator_code_kept(wheel: str) -> Iterator[None]:
    """A block in which the functions of mxnet's operators are made once a machine, and found in a file after that."""
    folder = Path(getattr(importlib.util.find_spec("mxnet"), "origin", None) or "/").parent
    makers = [folder / name for name in MAKERS_OF_OPERATORS]
    code = operator_code.OperatorCode(operator_code.default_path(wheel, folder), makers)
    _operator_code.append(code)
    try:
        yield
        code.save()
    finally:
        _operator_code.clear()


def _import_base(execute: Callable[[], None]) -> None:
    """Execute the module whose functions make all operators of a namespace, given the function that makes one."""
    execute()
    own = vars(sys.modules["mxnet.base"])
    for name in ("_init_op_module", "_init_np_op_module"):
        own[name] = _with_kept_code(own[name])


def _with_kept_code(make_all: Callable[..., None]) -> Callable[..., None]:
    """Return `make_all` with kept functions while mxnet is imported; operators of a later library are made."""

    @functools.wraps(make_all)
    def make_all_or_take(*given: Any, **named: Any) -> None:
        for code in _operator_code:
            given = tuple(code.maker(each) if callable(each) else each for each in given)
            named = {name: code.maker(each) if callable(each) else each for name, each in named.items()}
        make_all(*given, **named)

    return make_all_or_take


def _import_gluoncv(execute: Callable[[], None]) -> None:
    """Execute gluoncv, after mxnet: on its own it hides every mxnet error behind "missing mxnet & torch"."""
    with _explaining(), _quietly():
        importlib.import_module("mxnet")
        with import_shims.unused_packages_left_out(), import_shims.without_collections():
            execute()
    import_shims.complete_package("gluoncv")


def _import_loaders(name: str, execute: Callable[[], None]) -> None:
    """Execute a module of DataLoaders; mxnet and gluoncv have one each."""
    execute()
    mxnet_repairs.fork_workers(sys.modules[name])


@contextlib.contextmanager
def _explaining() -> Iterator[None]:
    """A block in which an error of a broken wheel becomes one sentence; still an ImportError, for callers to catch."""
    try:
        yield
    except CannotImport:
        raise
    except (ImportError, OSError, AttributeError) as error:
        if out_of_memory.shortage_in(error):
            raise OutOfMemory(error) from error
        raise CannotImport(_why_not(error)) from error


def _settle(mxnet: types.ModuleType) -> None:
    """Wait until MXNet is idle, before Python ends: its threads release NumPy's memory through Python.

    If they do so while Python shuts down, the process aborts and its exit code is lost.
    """
    with contextlib.suppress(mxnet.base.MXNetError):
        mxnet.nd.waitall()
    # An operation counts as done a moment before it releases its arrays, and there is no signal for that.
    time.sleep(SETTLE_SECONDS)


def __getattr__(name: str) -> types.ModuleType:
    if name == "mx":
        return load()
    if name == "gluoncv":
        return load_gluoncv()
    if name == "amp":
        load()
        return importlib.import_module("mxnet.contrib.amp")  # not among what `import mxnet` imports
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@contextlib.contextmanager
def _openmp_team(local_workers: int, threads: int | None) -> Iterator[int]:
    """Set, for the import, the OpenMP threads of an operator, and yield them; MXNet's own default is half the cores.

    MXNET_OMP_MAX_THREADS rather than OMP_NUM_THREADS, because MXNet then gives the processes it forks (loader
    workers) one thread each instead of a full team, and because libgomp reads OMP_NUM_THREADS only once, when
    whoever comes first loads it. A user's OMP_NUM_THREADS still wins over the share, as they expect.
    """
    users = machine.thread_variable()
    if threads is None and users is not None:
        log.debug("OpenMP threads from %s=%s", users, os.environ[users])
        yield machine.threads_of_variable()
        return
    team = machine.openmp_threads(threads or 0, local_workers)
    os.environ["MXNET_OMP_MAX_THREADS"] = str(team)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", str(team))
    with _without("OMP_NUM_THREADS"):
        yield team
    # MXNet sets its engine's threads; this one computes as well under MXNET_ENGINE_TYPE=NaiveEngine.
    ctypes.CDLL("libgomp.so.1").omp_set_num_threads(team)
    log.debug("%d OpenMP threads, of %d usable cores", team, machine.usable_cores())


@contextlib.contextmanager
def _without(variable: str) -> Iterator[None]:
    """Take a variable out of the environment for the block, and put it back.

    With DMLC_ROLE=server or scheduler `import mxnet` would not return: it serves, then exits the process.
    """
    value = os.environ.pop(variable, None)
    try:
        yield
    finally:
        if value is not None:
            os.environ[variable] = value
            log.debug("kept %s=%s from mxnet while it was imported", variable, value)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Ignore warnings of deprecated names that mxnet and gluoncv use as they are imported."""
    with warnings.catch_warnings():
        for category in (DeprecationWarning, FutureWarning, SyntaxWarning):
            warnings.simplefilter("ignore", category)
        yield


def _require_opencv() -> None:
    try:
        importlib.import_module("mxtrain.core.opencv")
    except UsageError as error:
        raise CannotImport(str(error)) from error


def _why_not(error: BaseException) -> str:
    """Return one sentence for a failed import: what is missing or in conflict, and the command that helps."""
    name = libraries.name_in(error)
    if name == "libcuda.so.1":
        return (
            "mxnet-cu112 needs NVIDIA's driver (libcuda.so.1) and this machine has none: install the driver, "
            f"or for CPUs {wheels.install_command('cpu')}"
        )
    cure = libraries.cure(name)
    if cure:
        return f"{name} is missing on this machine: {cure}"
    if name and "mxnet-cu112" in wheels.installed():
        return f"mxnet-cu112 finds no {name}: {wheels.install_command('cu112')} brings CUDA 11"
    conflicts = wheels.conflicts()
    if conflicts:
        return conflicts[0]
    reason = (str(error).splitlines() or [""])[0]
    return f"mxnet does not import here ({type(error).__name__}: {reason}): see python -m mxtrain.doctor"


# First of all finders, and once: where this module is loaded anew, the old one goes.
sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != __name__]
sys.meta_path.insert(
    0,
    _ImportHook(
        {
            "mxnet": _import_mxnet,
            "mxnet.base": _import_base,
            "gluoncv": _import_gluoncv,
            **{name: functools.partial(_import_loaders, name) for name in MODULES_OF_LOADERS},
        }
    ),
)
