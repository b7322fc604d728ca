"""The functions of mxnet's operators, kept in a file between processes, as Python keeps a .pyc of a module.

Importing mxnet asks its library about each of some 2,560 operators, writes a function's source from the answer and
compiles that. Each function holds the address of its operator, another in every process: its code is kept with MARK in
its place. The file is marshal's bytes, and those are code: who writes them can do anything as the user who reads them.
A file or folder of another user, or that others may write to, is ignored, and so is one made from other files than
those of today's mxnet.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import marshal
import os
import sys
import tempfile
import types
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple, Sequence

MARK = int.from_bytes(b"operator", "big")

# Of mxnet's folder: what the functions of its operators are made from.
MAKERS_OF_OPERATORS = (
    "libmxnet.so",
    "base.py",
    "ndarray_doc.py",
    "symbol_doc.py",
    "ndarray/register.py",
    "symbol/register.py",
)

_in_use: list[OperatorCode] = []  # one, while mxnet is imported


class Kept(NamedTuple):
    """A function without the address and the globals of a process."""

    code: types.CodeType
    are_null: tuple[bool, ...]  # of its defaults: whether each is mxnet's _Null, not None
    doc: str


@contextlib.contextmanager
def kept_while_imported(wheel: str) -> Iterator[None]:
    """A block in which the functions of mxnet's operators are made once a machine, and found in a file after that."""
    folder = Path(getattr(importlib.util.find_spec("mxnet"), "origin", None) or "/").parent
    makers = [folder / name for name in MAKERS_OF_OPERATORS]
    code = OperatorCode(default_path(wheel, folder), makers)
    _in_use.append(code)
    try:
        yield
        code.save()
    finally:
        _in_use.clear()


def take_kept(base: types.ModuleType) -> None:
    """Have mxnet.base make all operators of a namespace from kept functions, where there are some."""
    own = vars(base)
    for name in ("_init_op_module", "_init_np_op_module"):
        own[name] = _with_kept_code(own[name])


def _with_kept_code(make_all: Callable[..., None]) -> Callable[..., None]:
    """Return `make_all` with kept functions while mxnet is imported; operators of a later library are made."""

    @functools.wraps(make_all)
    def make_all_or_take(*given: Any, **named: Any) -> None:
        for code in _in_use:
            given = tuple(code.maker(each) if callable(each) else each for each in given)
            named = {name: code.maker(each) if callable(each) else each for name, each in named.items()}
        make_all(*given, **named)

    return make_all_or_take


def default_path(wheel: str, folder: Path) -> Path:
    """Return the file for a wheel of mxnet in `folder` and this Python; no file can be under /dev/null.

    Environments share no file: those of one would be older than the files of the other. Python -O leaves asserts out.
    """
    folders = (os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~/.cache"), os.devnull)
    python = f"{sys.implementation.cache_tag}{'.opt-1' if sys.flags.optimize else ''}"
    place = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    return Path(next(filter(os.path.isabs, folders)), "mxtrain", f"operators-{wheel}-{python}-{place}.bin")


class OperatorCode:
    """The functions in the file at `path`, if that can be trusted, and what this process adds.

    They were made by the files `makers`; where one of them has changed since, nothing is kept.
    """

    def __init__(self, path: Path, makers: Sequence[Path] = ()):
        self.path = path
        self.kept: dict[str, Kept] = {}
        self.added: dict[str, Kept] = {}
        self._made_by = [_size_and_time(maker) for maker in makers]
        with contextlib.suppress(OSError):
            content = path.read_bytes() if _only_ours(path.parent) and _only_ours(path) else b""
            if hashlib.sha256(content[32:]).digest() == content[:32]:
                made_by, functions = marshal.loads(content[32:])
                self.kept = functions if made_by == self._made_by else {}

    def maker(self, make: Callable[[Any, str, str], Any]) -> Callable[[Any, str, str], Any]:
        """Return what does the same as mxnet's `make`, which makes an operator's function, without the work."""
        own = make.__globals__
        null = own["_Null"]

        def made(handle: Any, name: str, function_name: str) -> Any:
            key = f"{make.__name__} {name} {function_name}"
            if key not in self.kept:
                function = make(handle, name, function_name)
                self._add(key, function, handle.value, null)
                return function
            code, are_null, doc = self.kept[key]
            constants = tuple([handle.value if each == MARK else each for each in code.co_consts])
            defaults = tuple([null if is_null else None for is_null in are_null])
            function = types.FunctionType(code.replace(co_consts=constants), own, function_name, defaults)
            function.__doc__ = doc
            return function

        return made

    def _add(self, key: str, function: types.FunctionType, address: int, null: object) -> None:
        """Keep a function, unless it is unlike those that `made` can make."""
        code, defaults = function.__code__, function.__defaults__ or ()
        if function.__kwdefaults__ or any(each is not null and each is not None for each in defaults):
            return
        # The text in the source is replaced by another, and no other constant has a line break.
        constants = ["" if isinstance(each, str) and "\n" in each else each for each in code.co_consts]
        constants = [MARK if each == address and type(each) is int else each for each in constants]
        are_null = tuple(each is null for each in defaults)
        self.added[key] = Kept(code.replace(co_consts=tuple(constants)), are_null, function.__doc__ or "")

    def save(self) -> None:
        """Write the functions, if any was missing; a file that cannot be written is none."""
        if not self.added:
            return
        texts: dict[str, str] = {}  # marshal writes the same object once, and many operators share a text
        functions = {
            key: (code, are_null, texts.setdefault(doc, doc))
            for key, (code, are_null, doc) in {**self.kept, **self.added}.items()
        }
        content = marshal.dumps((self._made_by, functions))
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


def _size_and_time(path: Path) -> list[int]:
    try:
        status = path.stat()
    except OSError:
        return []
    return [status.st_size, status.st_mtime_ns]


def _only_ours(path: Path) -> bool:
    status = path.stat()
    return status.st_uid == os.geteuid() and not status.st_mode & 0o022
