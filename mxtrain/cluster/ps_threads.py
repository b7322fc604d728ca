"""ps-lite's threads in this process, as Linux has them: nothing else tells that it has ended.

Its receiving thread ends with the message that tells it to, whoever sends that, and the rest of it waits for ever.
"""

from __future__ import annotations

import os
import time

# Where all is done, the main thread comes back before.
MISSED_LOOKS, MISSED_SECONDS = 3, 2.0


class EngineThreads:
    """The threads that begin after this was made; at work as long as those do that have stayed for two looks."""

    def __init__(self) -> None:
        self._others = _threads()
        self._last: set[str] = set()
        self._staying: set[str] = set()
        self._missed: list[float] = []

    def have_ended(self) -> bool:
        """Whether one of them is gone for good; the looks are a beat apart."""
        now = _threads() - self._others
        self._staying |= now & self._last  # faulthandler's own thread is another one at each beat
        self._last = now
        self._missed = [*self._missed, time.monotonic()] if self._staying - now else []
        return len(self._missed) >= MISSED_LOOKS and self._missed[-1] - self._missed[0] >= MISSED_SECONDS


def _threads() -> set[str]:
    return set(os.listdir("/proc/self/task"))
