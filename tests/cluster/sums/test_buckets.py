"""Buckets over real servers: what comes back is the sum, on any cluster, however its processes interleave."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path

import pytest

from mxtrain.kvstore.buckets import SPLIT_FACTOR, Segment, lay_out
from tests.support.jobs.cluster_jobs import ended, job

pytestmark = pytest.mark.timeout(300)
CLUSTERS = list(itertools.product((1, 2, 3, 4), (1, 2)))  # workers, servers


@pytest.mark.parametrize(
    "num_workers, num_servers",
    [
        # test_exact_sums.py has the sums of three workers on two servers.
        pytest.param(*cluster, marks=[] if cluster == (2, 1) else pytest.mark.slow)
        for cluster in CLUSTERS
    ],
)
def test_sums_are_exact_and_sent_early(
    num_workers: int, num_servers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DMLC_LOCAL", "0")  # of TCP alone the kernel counts bytes
    sum_arrays(tmp_path, num_workers, num_servers, steps=20)


def sum_arrays(folder: Path, num_workers: int, num_servers: int, steps: int) -> None:
    from tests.support.jobs import summing_worker

    work = functools.partial(summing_worker.sum_arrays, steps)
    with job(folder, work, num_workers, num_servers) as processes:
        codes = ended(processes)
    logs = "".join((folder / f"worker-{number}.log").read_text() for number in range(num_workers))
    assert set(codes.values()) == {0}, logs


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(20))
def test_no_first_step_takes_weights_for_gradients(
    attempt: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stock MXNet's race at the start: 4 of 8 jobs went wrong."""
    monkeypatch.setenv("DMLC_LOCAL", "0")
    sum_arrays(tmp_path, 2, 1 + attempt % 2, steps=3)


@pytest.mark.parametrize("sizes", [[1], [7, 1, 5], [100], [40, 40, 40, 1], [3] * 50, [2, 100, 3]])
@pytest.mark.parametrize("most", [1, 4, 9, 1000])
def test_every_element_has_one_place(sizes: list[int], most: int) -> None:
    buckets = lay_out([(size,) for size in sizes], most)
    elements = [
        (segment.array, number)
        for segments in buckets
        for segment in segments
        for number in range(segment.start, segment.stop)
    ]
    assert elements == [
        (array, number) for array in reversed(range(len(sizes))) for number in range(sizes[array])
    ]
    for segments in buckets:
        ends = [segment.offset + segment.stop - segment.start for segment in segments]
        assert [segment.offset for segment in segments] == [0, *ends[:-1]]
        whole = all(segment.stop - segment.start == sizes[segment.array] for segment in segments)
        if whole:
            assert (
                segments is buckets[-1]
                or ends[-1] >= most
                or is_cut(buckets[buckets.index(segments) + 1], sizes)
            )
            assert len(ends) == 1 or ends[-2] < most, "closed once it is full"
            assert max(sizes[segment.array] for segment in segments) <= SPLIT_FACTOR * most
        else:
            assert len(segments) == 1 and ends[-1] <= most and sizes[segments[0].array] > SPLIT_FACTOR * most


def is_cut(segments: list[Segment], sizes: list[int]) -> bool:
    return any(segment.stop - segment.start < sizes[segment.array] for segment in segments)
