"""The import hook: code of ours around each import of some modules, whoever imports them.

Owns its place on sys.meta_path; which modules these are, and what is done, is said by `__init__.py`.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable

Wrapper = Callable[[Callable[[], None]], None]  # is given what executes the module, and calls it


def install(wrappers: dict[str, Wrapper]) -> None:
    """Put the hook first of all finders, and once: an older one, of a door that is loaded anew, goes."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__module__ != __name__]
    sys.meta_path.insert(0, _ImportHook(wrappers))


class _ImportHook:
    """A finder on sys.meta_path that runs our own code around each import of a module named in `wrappers`."""

    def __init__(self, wrappers: dict[str, Wrapper]):
        self.wrappers = wrappers

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the spec that the other finders find, with its execution wrapped."""
        if name not in self.wrappers:
            return None
        others = (each for each in sys.meta_path if each is not self and hasattr(each, "find_spec"))
        found = (finder.find_spec(name, path, target) for finder in others)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            wrapper, execute = self.wrappers[name], loader.exec_module
            loader.exec_module = lambda module: wrapper(functools.partial(execute, module))
        return spec
