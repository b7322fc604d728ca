"""The compiled code of mxnet's operators, kept in a file between processes, as Python keeps a .pyc of a module.

Importing mxnet compiles the source of some 2,560 functions. Each holds the address of its operator, another in every
process: the code is kept with MARK in its place. The file is marshal's bytes, and those are code: who writes them can
do anything as the user who reads them. A file or folder of another user, or that others may write to, is ignored.
"""

from __future__ import annotations

import builtins
import contextlib
import hashlib
import marshal
import os
import re
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

MARK = int.from_bytes(b"operator", "big")
_ADDRESS = re.compile(r"\n    return _(?:imperative_invoke|symbol_creator)\((\d+), [^\n]*\Z")


def default_path(wheel: str) -> Path:
    """Return the file for a wheel of mxnet and this Python (-O leaves asserts out); no file can be under /dev/null."""
    folders = (os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~/.cache"), os.devnull)
    python = f"{sys.implementation.cache_tag}{'.opt-1' if sys.flags.optimize else ''}"
    return Path(next(filter(os.path.isabs, folders)), "mxtrain", f"operators-{wheel}-{python}.bin")


class OperatorCode:
    """The code in the file at `path`, if that can be trusted, and what this process adds."""

    def __init__(self, path: Path):
        self.path = path
        self.kept: dict[bytes, types.CodeType] = {}
        self.used: dict[bytes, types.CodeType] = {}
        with contextlib.suppress(OSError):
            content = path.read_bytes() if _only_ours(path.parent) and _only_ours(path) else b""
            if hashlib.sha256(content[32:]).digest() == content[:32]:
                self.kept = marshal.loads(content[32:])

    def execute(self, own: dict[str, Any], source: Any, globals_: Any = None, locals_: Any = None) -> None:
        """Do what exec does in a module whose globals are `own`, without compiling an operator's source twice."""
        if globals_ is None and locals_ is None:
            locals_ = sys._getframe(1).f_locals
        code = self.compiled(source) if isinstance(source, str) else source
        builtins.exec(code, own if globals_ is None else globals_, locals_)

    def compiled(self, source: str) -> types.CodeType:
        """Return the code of a source, with the address that is in it."""
        found = _ADDRESS.match(source, max(0, source.rfind("\n    return _")))
        text = f"{source[: found.start(1)]}{MARK}{source[found.end(1) :]}" if found else source
        key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        code = (
            self.used.get(key) or self.kept.get(key) or compile(text, "<string>", "exec", dont_inherit=True)
        )
        self.used[key] = code
        return _with_address(code, int(found.group(1))) if found else code

    def save(self) -> None:
        """Write the code that this process used, if any was missing; a file that cannot be written is none."""
        if self.used.keys() <= self.kept.keys():
            return
        content = marshal.dumps(self.used)
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _only_ours(self.path.parent):
                handle, aside = tempfile.mkstemp(dir=self.path.parent)  # mode 0600
                os.close(handle)
                try:
                    Path(aside).write_bytes(hashlib.sha256(content).digest() + content)
                    os.replace(aside, self.path)
                finally:
                    Path(aside).unlink(missing_ok=True)


def _only_ours(path: Path) -> bool:
    status = path.stat()
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _with_address(code: types.CodeType, address: int) -> types.CodeType:
    """Return the code with the address in place of MARK, also in the function that it defines."""
    constants: list[Any] = [address if each == MARK else each for each in code.co_consts]
    inner = [_with_address(each, address) if isinstance(each, types.CodeType) else each for each in constants]
    return code.replace(co_consts=tuple(inner))
