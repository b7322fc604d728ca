"""A thread that had stayed and is gone ends ps-lite's work; those that come and go do not."""

from __future__ import annotations

import threading
import time

import pytest

from mxtrain.cluster import ps_threads
from mxtrain.cluster.ps_threads import EngineThreads


def test_only_one_that_stayed_is_missed_and_not_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ps_threads, "MISSED_SECONDS", 0.1)
    end_others, end = threading.Event(), threading.Event()
    other = threading.Thread(target=end_others.wait)
    other.start()
    engine = EngineThreads()
    staying = threading.Thread(target=end.wait)
    staying.start()
    for _ in range(5):
        passing = threading.Thread(target=time.sleep, args=(0.01,))
        passing.start()
        assert not engine.have_ended()
        passing.join()
    end_others.set()
    other.join()
    assert not any(engine.have_ended() for _ in range(5)), "one that was here before"
    end.set()
    staying.join()
    assert not any(engine.have_ended() for _ in range(5)), "it may be on its way out"
    time.sleep(0.1)
    assert engine.have_ended()
