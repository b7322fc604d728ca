"""A host under examination: the process that reaches it, questions and answers, each in bounded time.

Owns the channel and the words for why a host does not answer. Does not own the questions (`cluster_hosts.py`) nor the
answers (`host_probe.py`).
"""

from __future__ import annotations

import collections
import contextlib
import json
import queue
import subprocess
import threading
from typing import Any, Sequence

from mxtrain.doctor.cluster.host_probe import PREFIX

LAST_LINES = 20
END_SECONDS = 3.0
SSH_FAILED, NO_COMMAND = 255, 127
LONGEST_LINE = 1 << 20


class HostFailed(Exception):
    """A host that is out of the examination, in words that follow its name."""


class RemoteHost:
    """A host's probe, started by `command`, which speaks JSON on its standard streams."""

    def __init__(self, command: Sequence[str]):
        self._answers: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._error_lines: collections.deque[str] = collections.deque(maxlen=LAST_LINES)
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        except OSError as error:
            raise HostFailed(f"cannot be asked: {command[0]}: {error.strerror}") from None
        self._readers = [
            threading.Thread(target=each, daemon=True) for each in (self._read_answers, self._read_errors)
        ]
        for reader in self._readers:
            reader.start()

    def ask(self, what: str, seconds: float, **request: Any) -> dict[str, Any]:
        """Return the answer to a question; HostFailed without one within `seconds`."""
        text = json.dumps({"do": what, **request}) + "\n"
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text.encode())
            self._process.stdin.flush()
            answer = self._answers.get(timeout=seconds)
        except queue.Empty:
            self.close()
            raise HostFailed(f"hangs: no answer about '{what}' within {seconds:g} s") from None
        except OSError:
            answer = None
        if answer is None:
            raise HostFailed(self._reason())
        if "error" in answer and len(answer) == 1:
            raise HostFailed(f"failed at '{what}': {answer['error']}")
        return answer

    def close(self) -> None:
        """End the probe, and what carries it."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _reason(self) -> str:
        """Return why the probe has ended."""
        self.close()
        for reader in self._readers:
            reader.join(END_SECONDS)
        lines = [line for line in self._error_lines if line.strip()]
        last, code = (lines or ["it says nothing"])[-1], self._process.returncode
        if "No module named 'mxtrain.doctor" in last or "No module named mxtrain.doctor" in last:
            return (
                f"has another version of mxtrain, without this probe ({last}): install the same version there"
            )
        if "No module named" in last:
            return (
                f"has no mxtrain ({last}): install it there, or give --python or --folder as they are there"
            )
        if code == SSH_FAILED:
            return f"cannot be reached: {last}"
        if code == NO_COMMAND:
            return f"has no such Python ({last}): give --python as it is there"
        return f"ended with exit code {code}: {last}"

    def _read_answers(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            for line in iter(lambda: self._process.stdout.readline(LONGEST_LINE), b""):  # type: ignore[union-attr]
                text = line.decode(errors="replace")
                if text.startswith(PREFIX):
                    self._answers.put(json.loads(text[len(PREFIX) :]))
        self._answers.put(None)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        with contextlib.suppress(OSError, ValueError):
            for line in iter(lambda: self._process.stderr.readline(LONGEST_LINE), b""):  # type: ignore[union-attr]
                self._error_lines.append(line.decode(errors="replace").rstrip())
