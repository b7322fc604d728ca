"""The only package that imports mxnet and gluoncv, and all that has to be done before and around that import.

This module owns what is done in which order; its neighbours own how. Others write:

    from mxtrain.runtime import mx          # loads with all usable cores, unless `load` came first
    from mxtrain.runtime import gluoncv

After `import mxtrain.runtime` a plain `import mxnet` gets the same treatment, also inside other people's packages: an
import hook sees to it. Facts about the machine are `core/system/`'s; what a role does with mxnet is `kvstore/`'s.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import os
import sys
import time
from types import ModuleType
from typing import TYPE_CHECKING, Any, Callable

from mxtrain.core.errors import OutOfMemory, UsageError
from mxtrain.core.system import kernels, libraries, out_of_memory, wheels
from mxtrain.runtime import import_hook, mxnet_repairs, numpy_names, openmp, operator_code, own_operators
from mxtrain.runtime.failed_imports import CannotImport, explained, require_opencv, why_not
from mxtrain.runtime.import_shims import (
    bare_packages,
    complete_package,
    quietly,
    restore_distutils,
    unused_packages_left_out,
    without_collections,
    without_variable,
)
from mxtrain.runtime.operator_code import kept_while_imported

if TYPE_CHECKING:  # `__getattr__` imports them
    mx: Any
    gluoncv: Any
    amp: Any

SETTLE_SECONDS = 0.1
THREADS = (
    "_mxtrain_threads"  # mxnet's attribute that says with how many it was imported, and that it was from here
)

MODULES_OF_LOADERS = ("mxnet.gluon.data.dataloader", "gluoncv.data.dataloader")

_shares: dict[str, Any] = {"local_workers": 1, "threads": None}  # of the cores, by the last call


def load(local_workers: int = 1, threads: int | None = None) -> ModuleType:
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


def load_gluoncv() -> ModuleType:
    """Import gluoncv once and return it; mxnet comes first."""
    return _imported("gluoncv")


def load_gluoncv_module(name: str) -> ModuleType:
    """Import one module of gluoncv and return it, without the hundreds that gluoncv imports with itself.

    An `import gluoncv` that comes later finds it there.
    """
    load()
    with unused_packages_left_out(), bare_packages(name), quietly():
        return _imported(name)


def _imported(name: str) -> ModuleType:
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
        raise UsageError(why_not(error)) from error


def _import_mxnet(execute: Callable[[], None]) -> None:
    """Execute mxnet with the shims, libraries and variables that it needs."""
    if sys.flags.optimize > 1:
        raise CannotImport(
            "python -OO strips the docstrings that mxnet's import reads: use python -O, or neither"
        )
    out_of_memory.warn_of_limits()
    _set_variables()
    numpy_names.restore()
    restore_distutils()
    libraries.lend()
    installed = wheels.installed()
    if "mxnet-cu112" in installed:
        libraries.preload_cuda()
    wheel = next(
        (f"{name}-{installed[name]}" for name in ("mxnet-cu112", "mxnet") if name in installed), "mxnet"
    )
    with explained(), openmp.team_of(**_shares) as threads, without_variable("DMLC_ROLE"), quietly():
        kernels.load_openblas()
        with unused_packages_left_out(), without_collections(), kept_while_imported(wheel):
            execute()
        mxnet = sys.modules["mxnet"]
        setattr(mxnet, THREADS, threads)
        mxnet_repairs.repair(mxnet)
        own_operators.load(mxnet, threads)
        # oneDNN reads its variable at its first operation, and no more.
        with kernels.onednn_variable() as is_needed:
            if is_needed:
                mxnet.nd.Activation(mxnet.nd.ones((1,)), act_type="relu").wait_to_read()
    # mxnet goes on without a broken OpenCV and dies much later, in pack_img, with a bare assertion.
    if mxnet.recordio.cv2 is None:
        require_opencv()
    atexit.register(_settle, mxnet)


def _set_variables() -> None:
    """Set what MXNet reads of its environment, where the user has not."""
    # MXNet's operators on a CPU run one after the other, and yet take turns at four workspaces, each as large as the
    # largest of them needs: 300 MB of a resnet18's 1.6 GB at 32 images. It reads this at its first operation.
    os.environ.setdefault("MXNET_CPU_TEMP_COPY", "1")
    # Of five plans for the arrays of a graph, which take no time to make, take the smallest and not the first.
    os.environ.setdefault("NNVM_AUTO_SEARCH_MATCH_RANGE", "1")


def _import_base(execute: Callable[[], None]) -> None:
    """Execute the module whose functions make all operators of a namespace, given the function that makes one."""
    execute()
    operator_code.take_kept(sys.modules["mxnet.base"])


def _import_gluoncv(execute: Callable[[], None]) -> None:
    """Execute gluoncv, after mxnet: on its own it hides every mxnet error behind "missing mxnet & torch"."""
    with explained(), quietly():
        importlib.import_module("mxnet")
        with unused_packages_left_out(), without_collections():
            execute()
    complete_package("gluoncv")


def _import_loaders(name: str, execute: Callable[[], None]) -> None:
    """Execute a module of DataLoaders; mxnet and gluoncv have one each."""
    execute()
    mxnet_repairs.fork_workers(sys.modules[name])


def _settle(mxnet: ModuleType) -> None:
    """Wait until MXNet is idle, before Python ends: its threads release NumPy's memory through Python.

    If they do so while Python shuts down, the process aborts and its exit code is lost.
    """
    with contextlib.suppress(mxnet.base.MXNetError):
        mxnet.nd.waitall()
    # An operation counts as done a moment before it releases its arrays, and there is no signal for that.
    time.sleep(SETTLE_SECONDS)


def __getattr__(name: str) -> ModuleType:
    if name == "mx":
        return load()
    if name == "gluoncv":
        return load_gluoncv()
    if name == "amp":
        load()
        return importlib.import_module("mxnet.contrib.amp")  # not among what `import mxnet` imports
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


import_hook.install(
    {
        "mxnet": _import_mxnet,
        "mxnet.base": _import_base,
        "gluoncv": _import_gluoncv,
        **{name: functools.partial(_import_loaders, name) for name in MODULES_OF_LOADERS},
    }
)
