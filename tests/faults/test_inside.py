"""Kills in the very middle of what no signal from outside would hit: see tests/support/losses/struck_inside.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.case import DONE_SECONDS
from tests.faults.job import FLAGS, cluster, result
from tests.support.runs import warm_started


@pytest.mark.timeout(DONE_SECONDS + 30)
@pytest.mark.parametrize(
    ("place", "said", "num_servers"),
    [
        ("killed_in_sums", "worker-2 was killed by SIGKILL", 1),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in (
                ("killed_before_the_first_grid", "worker-0 was killed by SIGKILL", 1),
                ("killed_with_the_first_grid", "worker-1 was killed by SIGKILL", 1),
                ("killed_in_the_file_of_a_grid", "restart 1 of 3 in 1 s from step 3", 1),
                ("killed_in_sums", "worker-2 was killed by SIGKILL", 0),
            )
        ),
    ],
)
def test_a_worker_that_is_killed_while_a_grid_is_in_use_leaves_no_trace(
    place: str,
    said: str,
    num_servers: int,
    data: list[str],
    undisturbed: tuple[object, ...],
    tmp_path: Path,
) -> None:
    loss = ["--loss", f"tests.support.losses.struck_inside:{place}"]
    with warm_started("--out", tmp_path, *FLAGS, *loss, *data, *cluster(3, num_servers)) as run:
        _, output = run.communicate(timeout=DONE_SECONDS)
    assert run.returncode == 0, output
    assert "restart 1 of 3" in output and "restart 2" not in output and said in output, output
    assert result(tmp_path) == undisturbed
