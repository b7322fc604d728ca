"""Shims for the import of mxnet and gluoncv: parts of Python and packages that have changed since, and what to hide.

`__init__.py` puts these around the import; NumPy's names are `numpy_names.py`'s.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import importlib.util
import itertools
import logging
import os
import re
import sys
import types
import warnings
from typing import Any, Iterator

logger = logging.getLogger(__name__)

# What mxnet and gluoncv import at their top: for downloads, SciPy's matrices, HDF5 files, mxnet's own tests and its
# quantization.
LOADED_ON_FIRST_USE = (*("requests", "portalocker", "scipy.sparse", "scipy.stats", "h5py"),)
OWN_FREEZE = 1000  # Python 3.12 keeps a few hundred objects of its own out of collections, others none


def restore_distutils() -> None:
    """Restore distutils.version, gone since Python 3.12; mxnet and gluoncv compare versions with it."""
    if (
        sys.version_info < (3, 12) or "_distutils_hack" in sys.modules
    ):  # setuptools' own, which brings it when asked
        return
    sys.modules.update(_distutils_modules())
    logger.debug("put back distutils.version")


@contextlib.contextmanager
def without_variable(variable: str) -> Iterator[None]:
    """Take a variable out of the environment for the block, and put it back.

    With DMLC_ROLE=server or scheduler `import mxnet` would not return: it serves, then exits the process.
    """
    value = os.environ.pop(variable, None)
    try:
        yield
    finally:
        if value is not None:
            os.environ[variable] = value
            logger.debug("kept %s=%s from mxnet while it was imported", variable, value)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Ignore warnings of deprecated names that mxnet and gluoncv use as they are imported."""
    with warnings.catch_warnings():
        for category in (DeprecationWarning, FutureWarning, SyntaxWarning):
            warnings.simplefilter("ignore", category)
        yield


@contextlib.contextmanager
def unused_packages_left_out() -> Iterator[None]:
    """A block in which importing mxnet or gluoncv loads no packages that together take longer and no training uses.

    Those of LOADED_ON_FIRST_USE load when they are first used, and scikit-learn, of which mxnet takes a base class for
    the old FeedForward, is as if it were not installed. In place of distutils, of which both want one class, setuptools
    would load itself.
    """
    stand_ins: dict[str, Any] = {"sklearn": None}
    if "distutils" not in sys.modules:
        stand_ins.update(_distutils_modules())
    for name in LOADED_ON_FIRST_USE:
        if importlib.util.find_spec(name.split(".")[0]) is not None:
            stand_ins[name] = _LoadedOnFirstUse(name)
    if "scipy.sparse" in stand_ins:
        stand_ins["scipy.sparse"].csr = types.SimpleNamespace(csr_matrix=_SparseMatrix)
    standing = {name: module for name, module in stand_ins.items() if name not in sys.modules}
    sys.modules.update(standing)
    try:
        yield
    finally:
        for name, module in standing.items():
            if name in sys.modules and sys.modules[name] is module:
                del sys.modules[name]


@contextlib.contextmanager
def bare_packages(module: str) -> Iterator[None]:
    """A block in which a module can be imported without what its packages import first; see `complete_package`."""
    standing = {}
    for package in list(itertools.accumulate(module.split("."), "{}.{}".format))[:-1]:
        if package not in sys.modules:
            spec = importlib.util.find_spec(package)
            if spec is None:
                break  # then the import says what is missing
            bare = types.ModuleType(package)
            bare.__path__ = spec.submodule_search_locations or []
            standing[package] = sys.modules[package] = bare
    try:
        yield
    finally:
        for package in standing:
            del sys.modules[package]


def complete_package(package: str) -> None:
    """Give the modules that came into bare packages to the real ones as attributes, once `package` is there itself."""
    for name in [name for name in sys.modules if name.startswith(f"{package}.")]:
        parent, _, own_name = name.rpartition(".")
        vars(importlib.import_module(parent)).setdefault(own_name, sys.modules[name])


@contextlib.contextmanager
def without_collections() -> Iterator[None]:
    """A block in which Python looks for no garbage: imports make much that stays, and each search goes through it."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() < OWN_FREEZE:  # makes all that is there old, without a search
            gc.freeze()
            gc.unfreeze()
        gc.enable()


def _distutils_modules() -> dict[str, types.ModuleType]:
    version = types.ModuleType("distutils.version")
    version.LooseVersion = version.StrictVersion = _DottedVersion  # type: ignore[attr-defined]
    distutils = types.ModuleType("distutils")
    distutils.version = version  # type: ignore[attr-defined]
    return {"distutils": distutils, "distutils.version": version}


@functools.total_ordering
class _DottedVersion:
    def __init__(self, text: str):
        self.numbers = [int(number) for number in re.findall(r"\d+", text)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _DottedVersion) and self.numbers == other.numbers

    def __lt__(self, other: _DottedVersion) -> bool:
        return self.numbers < other.numbers


class _LoadedOnFirstUse(types.ModuleType):
    """A stand-in for a module, which is imported when one of its names is first used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)

    def __dir__(self) -> list[str]:
        return (
            dir(importlib.import_module(self.__name__)) if sys.modules.get(self.__name__) is not self else []
        )


class _OfSparseMatrix(type):
    def __instancecheck__(cls, value: object) -> bool:
        sparse = sys.modules.get("scipy.sparse")
        return not isinstance(sparse, (_LoadedOnFirstUse, type(None))) and isinstance(
            value, sparse.csr_matrix
        )


class _SparseMatrix(metaclass=_OfSparseMatrix):
    """A class of SciPy's matrices in compressed rows: mxnet asks of each array that it takes whether it is one.

    Nothing is, before SciPy's module is loaded. The name that mxnet knows it by is deprecated in SciPy.
    """
