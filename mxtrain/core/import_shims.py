"""Shims for the import of mxnet and gluoncv, in place of parts of Python and packages that have changed since.

`runtime.py` puts these around the import; NumPy's names are `numpy_names.py`'s.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import logging
import re
import sys
import types
from typing import Any, Iterator

logger = logging.getLogger(__name__)


def restore_distutils() -> None:
    """Restore distutils.version, gone since Python 3.12; mxnet and gluoncv compare versions with it."""
    if (
        sys.version_info < (3, 12) or "_distutils_hack" in sys.modules
    ):  # setuptools' own, which brings it when asked
        return
    sys.modules.update(_distutils_modules())
    logger.debug("put back distutils.version")


@contextlib.contextmanager
def unused_packages_left_out() -> Iterator[None]:
    """A block in which importing mxnet loads no packages that take as long as mxnet and that no training uses.

    SciPy's statistics (for mxnet's own tests and its quantization) load when they are first used, and scikit-learn,
    of which mxnet takes a base class for the old FeedForward, is as if it were not installed. In place of distutils,
    of which mxnet wants one class, setuptools would load itself.
    """
    stand_ins: dict[str, Any] = {"sklearn": None}
    if "distutils" not in sys.modules:
        stand_ins.update(_distutils_modules())
    if importlib.util.find_spec("scipy") is not None:
        stand_ins["scipy.stats"] = _LoadedOnFirstUse("scipy.stats")
    standing = {name: module for name, module in stand_ins.items() if name not in sys.modules}
    sys.modules.update(standing)
    try:
        yield
    finally:
        for name, module in standing.items():
            if name in sys.modules and sys.modules[name] is module:
                del sys.modules[name]


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
