"""A shell in a terminal, in which a test types as a user does."""

from __future__ import annotations

import os
import pty
import select
import signal
import time
from pathlib import Path
from types import TracebackType

DEADLINE_SECONDS = 20


class Shell:
    """A shell that was started with `line` in `folder`; its prompt is `> `."""

    def __init__(self, *line: str, folder: Path):
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            os.environ.update(TERM="dumb", HOME=str(folder), PS1="> ", INPUTRC="/dev/null")
            os.execvp(line[0], line)

    def type(self, text: str, expected: str) -> str:
        """Type `text` and wait until what the terminal then shows has `expected` in it; return that."""
        os.write(self._terminal, text.encode())
        shown, deadline = "", time.monotonic() + DEADLINE_SECONDS
        while expected not in shown:
            ready, _, _ = select.select([self._terminal], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{expected!r} does not appear: {shown!r}"
            shown += os.read(self._terminal, 65536).decode()
        return shown

    def __enter__(self) -> Shell:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._terminal)
