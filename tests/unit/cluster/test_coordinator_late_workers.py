"""With --min-workers a job goes on without missing or outdated workers; these wait for its next attempt."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any, Callable, Dict, Tuple

import pytest

from mxtrain.cluster.agent import Agent
from mxtrain.cluster.channel import Timeouts
from mxtrain.launch.local import free_port
from tests.support.jobs import control_plane

Shorthanded = Tuple[Dict[str, control_plane.Node], Callable[..., control_plane.Node]]


@pytest.fixture
def shorthanded(tmp_path: Path) -> Shorthanded:
    """A job that goes on without worker-0 until there is a file `enough`, and a function that starts worker-0 late."""

    def work(me: Agent) -> None:
        assert (me.rank, me.world_size) == (0, 1)
        while not (tmp_path / "enough").exists():
            assert me.sum([2.0]) == [2.0]
            time.sleep(0.01)
        me.finish()

    port, timeouts = free_port(), Timeouts(start=1.0, silence=1.0, stall=5)
    job = control_plane.start_nodes(tmp_path, port, "scheduler", "server-0", timeouts=timeouts, min_workers=1)
    job["worker-1"] = control_plane.Node(
        tmp_path, control_plane.node_spec("worker-1", port), work, timeouts=timeouts
    )
    control_plane.wait_for_output(job["scheduler"], "continuing without worker-0")

    def late(**more: Any) -> control_plane.Node:
        return control_plane.Node(
            tmp_path, control_plane.node_spec("worker-0", port), timeouts=timeouts, **more
        )

    return job, late


def test_a_late_worker_waits_and_has_no_part_in_this_attempt(
    tmp_path: Path, shorthanded: Shorthanded
) -> None:
    job, start = shorthanded
    late, killed, frozen, signalled = (start(handles_signals=True) for _ in range(4))
    for node in (late, killed, frozen, signalled):
        control_plane.wait_for_output(node, "worker-0 comes too late and waits for the job's next attempt")
    killed.send(signal.SIGKILL)
    frozen.send(signal.SIGSTOP)
    signalled.send(signal.SIGTERM)
    assert signalled.exit_code(2) == 143
    cannot = start(info={"failed": [3, "a.rec: no such file"]})
    assert cannot.exit_code(2) == 3 and "worker-0: a.rec: no such file" in cannot.output
    time.sleep(3.2)  # longer than a rendezvous or a silence may last
    assert frozen.exit_code(0) is None
    (tmp_path / "enough").touch()
    assert set(control_plane.exit_codes({**job, "late": late}).values()) == {0}, [
        node.output for node in job.values()
    ]
    assert late.output.endswith("mxtrain.fit: worker-0: the job is done, without it\n")


def test_a_late_worker_starts_again_with_the_others_when_the_attempt_ends(shorthanded: Shorthanded) -> None:
    job, start = shorthanded
    late = start()
    control_plane.wait_for_output(late, "comes too late")
    job["worker-1"].send(signal.SIGKILL)
    found = control_plane.exit_codes({**job, "late": late}, 4)
    assert found.pop("worker-1") == -signal.SIGKILL
    assert set(found.values()) == {75}
    assert "worker-1 (" in late.output and "died" in late.output


def test_a_worker_whose_disk_lacks_the_resume_step_is_left_out(tmp_path: Path) -> None:
    """Like a worker left out of an attempt for so long that the others have pruned its checkpoints."""
    port, num_workers = free_port(), 3
    place = {"is_restart": True, "job": "ours", "num_workers": num_workers}
    steps = {"worker-0": (80, 100), "worker-1": (480, 500), "worker-2": (480, 500)}

    def work(me: Agent) -> None:
        (tmp_path / me.name).write_text(f"{me.rank} of {me.world_size} from {me.assignment.resume_step}")
        assert me.sum([1.0]) == [2.0]
        me.finish()

    job = {
        name: control_plane.Node(
            tmp_path,
            control_plane.node_spec(name, port, **place),
            work if name in steps else None,
            info={"folder": name, "checkpoints": steps[name], "savers": ("ours",) * 2}
            if name in steps
            else None,
            min_workers=2,
        )
        for name in ("scheduler", "server-0", *steps)
    }
    assert set(control_plane.exit_codes(job).values()) == {0}, [node.output for node in job.values()]
    ranks = {name: (tmp_path / name).read_text() for name in steps if (tmp_path / name).exists()}
    assert ranks == {"worker-1": "0 of 2 from 500", "worker-2": "1 of 2 from 500"}
    lacks = "lacks checkpoints/step-00000500, from which the others resume"
    assert f"worker-0 {lacks}, and waits for the job's next attempt" in job["worker-0"].output
    assert "the job is done, without it" in job["worker-0"].output
    assert "continuing without worker-0 (" in job["scheduler"].output and lacks in job["scheduler"].output
