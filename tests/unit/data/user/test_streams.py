"""A stream is read on in order, whoever asks for which of its samples."""

from __future__ import annotations

import itertools
from typing import Any, Iterator

import numpy as np
import pytest

from mxtrain import config
from mxtrain.core.errors import DataError, user_message
from mxtrain.data import fingerprint
from mxtrain.data.fields import Field
from mxtrain.data.loading import run_plan, sample_requests
from mxtrain.data.loading.assembly import SampleAssembly
from mxtrain.data.loading.loader import Loader
from mxtrain.data.user.streams import STEPS_KEPT, Stream, is_stream, resume
from mxtrain.data.user.user_samples import record_of_pair

BATCH, EPOCH_STEPS = 6, 2
RUN = config.parse(f"--train t.rec --batch-size {BATCH} --micro-batch 2".split())


class Source:
    """Counts up; it remembers what was taken of it, and how often it was begun."""

    def __init__(self, first: int = 0):
        self.first, self.taken, self.num_begun = first, 0, 0

    def __call__(self) -> Iterator[Any]:
        self.num_begun += 1
        for number in itertools.count(self.first):
            self.taken += 1
            yield np.array([number], np.float32), number


def stream_of(begin: Any) -> Stream:
    return Stream("own:stream", begin, record_of_pair, BATCH * EPOCH_STEPS, BATCH)


def loaded(
    stream: Stream, rank: int = 0, num_workers: int = 1, steps: tuple[int, int] = (0, 9)
) -> dict[Any, list[int]]:
    """The samples of each micro-batch, by step and position."""
    run = config.from_flat({**config.to_flat(RUN), "num_workers": num_workers, "kvstore": "dist_sync"})
    samples_of, plan = sample_requests.epoch_sampler(run, stream), run_plan.of_run(run, len(stream))
    requests = sample_requests.training_requests(samples_of, plan, range(*steps), rank)
    assembly = SampleAssembly(stream, lambda record, rng, row: {"x": record.payload}, [Field("x", (1,))], 0)
    found = {}
    with Loader(assembly, requests) as loader:
        for batch in loader:
            found[batch.request.step, batch.request.position] = batch.arrays["x"].ravel().astype(int).tolist()
            loader.release(batch)
    return found


def test_samples_come_as_they_are_over_all_epochs() -> None:
    found = loaded(stream_of(Source()))
    assert list(itertools.chain(*found.values())) == list(range(9 * BATCH))
    assert list(found) == [(step, position) for step in range(9) for position in range(3)]


@pytest.mark.parametrize("num_workers", [2, 3, 4])
def test_each_worker_takes_its_own(num_workers: int) -> None:
    together: dict[Any, list[int]] = {}
    for rank in range(num_workers):
        own = loaded(stream_of(Source()), rank, num_workers)
        assert not set(own) & set(together)
        together.update(own)
    assert together == loaded(stream_of(Source()))


def test_little_is_kept_and_nothing_is_read_twice() -> None:
    source = Source()
    stream = stream_of(source)
    loaded(stream, rank=0, num_workers=2, steps=(0, 60))
    assert source.num_begun == 1
    assert 60 * BATCH - BATCH <= source.taken <= 60 * BATCH
    assert len(stream._kept) <= STEPS_KEPT * BATCH and len(stream._wanted) <= STEPS_KEPT * BATCH


def test_the_last_steps_can_be_looked_at_again() -> None:
    source = Source()
    stream = stream_of(source)
    loaded(stream, steps=(0, 40))
    assert loaded(stream, steps=(38, 39))[38, 1] == [38 * BATCH + 2, 38 * BATCH + 3]
    assert source.num_begun == 1


def test_what_can_begin_again_is_read_again() -> None:
    source = Source()
    stream = stream_of(source)
    loaded(stream, steps=(0, 40))
    assert loaded(stream, steps=(1, 2))[1, 0] == [BATCH, BATCH + 1]
    assert source.num_begun == 2
    once = source()
    stream = stream_of(lambda: once)
    loaded(stream, steps=(0, 40))
    with pytest.raises(DataError, match="--train own:stream: has passed sample 3, and cannot begin again"):
        stream.read(3)


def test_a_stream_that_ends_says_so() -> None:
    few = [(np.zeros(1, np.float32), 0)] * 20
    with pytest.raises(
        DataError, match="--train own:stream: ended after 20 samples; make it endless, or give fewer"
    ):
        loaded(stream_of(lambda: iter(few)))
    with pytest.raises(DataError, match="ended after 0 samples"):
        stream_of(lambda: iter(()))
    assert len(loaded(stream_of(lambda: iter(few[:18])), steps=(0, 3))) == 9
    assert stream_of(lambda: iter(few[:3])).read(2).label == 0  # fewer than it is known by


def test_what_fails_in_the_users_code_names_its_flag() -> None:
    def failing() -> Iterator[Any]:
        yield from [(np.zeros(1), 0)] * 10
        raise ZeroDivisionError("broke")

    stream = stream_of(failing)
    with pytest.raises(ZeroDivisionError) as failed:
        stream.read(10)
    assert user_message(failed.value) == "--train own:stream: ZeroDivisionError: broke"


def test_a_resume_counts_where_it_begins_alike() -> None:
    before, calls = stream_of(Source()), []
    state = {"step": 5, "training_set": fingerprint.fingerprint_of(before)}
    source = Source()
    stream = stream_of(source)
    resume(stream, state, BATCH, calls.append)
    assert source.taken == 5 * BATCH and calls == [True] * (5 * BATCH - 8)
    assert loaded(stream, steps=(5, 9)) == {key: own for key, own in loaded(before).items() if key[0] >= 5}


def test_a_resume_goes_on_with_what_comes_where_it_does_not(caplog: pytest.LogCaptureFixture) -> None:
    state = {"step": 5, "training_set": fingerprint.fingerprint_of(stream_of(Source()))}
    stream = stream_of(Source(first=1000))
    resume(stream, state, BATCH, lambda has_moved: None)
    assert "own:stream: does not begin with the samples it began with before" in caplog.text
    assert list(itertools.chain(*loaded(stream, steps=(5, 9)).values())) == list(
        range(1000, 1000 + 4 * BATCH)
    )


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ((b"a", 0), (b"a", 0), True),
        ((b"a", 0), (b"b", 0), False),
        ((b"a", 0), (b"a", 1), False),
        ((np.zeros(2), [1, 2]), (np.zeros(2), [1, 3]), False),
        (({"words": [1, 2]}, 0), ({"words": [1, 3]}, 0), False),
        (({"words": [1, 2]}, 0), ({"words": [1, 2]}, 0), True),
    ],
)
def test_it_is_known_by_its_first_samples(one: Any, other: Any, is_same: bool) -> None:
    prints = [
        fingerprint.fingerprint_of(stream_of(lambda item=item: itertools.repeat(item)))
        for item in (one, other)
    ]
    assert (prints[0] == prints[1]) == is_same


def test_what_a_stream_is() -> None:
    assert is_stream(iter([])) and is_stream(number for number in ())
    assert not any(map(is_stream, ([], (), {}, np.zeros(3), "abc", 7, b"")))
