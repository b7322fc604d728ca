"""With --min-workers a job goes on without who is missing; who comes later waits for its next life."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any, Callable, Dict, Tuple

import pytest

from mxtrain.cluster.agent import Agent, Timeouts
from tests.support import control_plane
from tests.support.coordinators import said, some

Shorthanded = Tuple[Dict[str, control_plane.Node], Callable[..., control_plane.Node]]


@pytest.fixture
def shorthanded(tmp_path: Path) -> Shorthanded:
    """A job that goes on without worker-0 until there is a file `enough`, and what starts such a worker late."""

    def work(me: Agent) -> None:
        assert (me.rank, me.world_size) == (0, 1)
        while not (tmp_path / "enough").exists():
            assert me.sum([2.0]) == [2.0]
            time.sleep(0.01)
        me.finish()

    port, times = control_plane.free_port(), Timeouts(start=1.0, silence=1.0, stall=5)
    job = some(tmp_path, port, "scheduler", "server-0", times=times, min_workers=1)
    job["worker-1"] = control_plane.Node(tmp_path, control_plane.place("worker-1", port), work, times=times)
    said(job["scheduler"], "going on without worker-0")

    def late(**more: Any) -> control_plane.Node:
        return control_plane.Node(tmp_path, control_plane.place("worker-0", port), times=times, **more)

    return job, late


def test_who_is_late_waits_and_has_no_part_in_this_life(tmp_path: Path, shorthanded: Shorthanded) -> None:
    job, start = shorthanded
    late, killed, frozen, signalled = (start(heeds_signals=True) for _ in range(4))
    for node in (late, killed, frozen, signalled):
        said(node, "worker-0 comes too late and waits for the job's next life")
    killed.send(signal.SIGKILL)
    frozen.send(signal.SIGSTOP)
    signalled.send(signal.SIGTERM)
    assert signalled.code(2) == 143
    cannot = start(card={"failed": [3, "a.rec: no such file"]})
    assert cannot.code(2) == 3 and "worker-0: a.rec: no such file" in cannot.said
    time.sleep(3.2)  # longer than an answer to a roll call may take, and than a silence
    assert frozen.code(0) is None
    (tmp_path / "enough").touch()
    assert set(control_plane.codes({**job, "late": late}).values()) == {0}, [
        node.said for node in job.values()
    ]
    assert late.said.endswith("mxtrain.fit: worker-0: the job is done, without it\n")


def test_who_is_late_starts_again_with_all_when_a_life_ends(shorthanded: Shorthanded) -> None:
    job, start = shorthanded
    late = start()
    said(late, "comes too late")
    job["worker-1"].send(signal.SIGKILL)
    found = control_plane.codes({**job, "late": late}, 4)
    assert found.pop("worker-1") == -signal.SIGKILL
    assert set(found.values()) == {75}
    assert "worker-1 (" in late.said and "died" in late.said
