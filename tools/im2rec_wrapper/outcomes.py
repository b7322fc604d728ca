"""What becomes of each item, worked out in threads and handed over in order.

Threads suffice, as reading and decoding leave the interpreter's lock. Many read, because a cold disk wants many
requests at once; as many as there are cores decode, which bounds the memory for pixels.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Callable, Iterable, Iterator, NamedTuple, Sequence, TypeVar

from mxtrain.data.jpeg import BadPicture
from mxtrain.machine import usable_cores
from tools.im2rec_wrapper.images import Packed
from tools.im2rec_wrapper.sources.item import BadItem, Item, Source

_AT_A_TIME = 8  # items a task: handing one over costs as much as reading a small file
_TASKS_A_WORKER = 2

T = TypeVar("T")


class Outcome(NamedTuple):
    packed: Packed | None
    reason: str  # why there is none
    stamp: tuple[int, ...]


def outcomes(
    items: Iterable[Item], source: Source, prepare: Callable[[bytes], Packed], num_workers: int | None
) -> Iterator[Outcome]:
    """One for each item, in order."""
    may_decode = threading.Semaphore(usable_cores())

    def outcome(item: Item) -> Outcome:
        try:
            stamp = source.stamp(item)
            data = source.read(item)
            with may_decode:
                return Outcome(prepare(data), "", stamp)
        except (BadPicture, BadItem) as error:
            return Outcome(None, " ".join(str(error).split()), stamp)
        except OSError as error:
            return Outcome(None, f"it cannot be read ({error.strerror})", stamp)

    return in_order(outcome, items, num_workers or max(16, usable_cores()))


def in_order(work: Callable[[Item], T], items: Iterable[Item], num_workers: int) -> Iterator[T]:
    """`work` of each item, with a bounded number under way."""
    remaining = iter(items)

    def task(some: Sequence[Item]) -> list[T]:
        return [work(item) for item in some]

    def tasks() -> Iterator[Sequence[Item]]:
        while True:
            some = list(itertools.islice(remaining, _AT_A_TIME))
            if not some:
                return
            yield some

    waiting = tasks()
    pool = ThreadPoolExecutor(num_workers)
    under_way: deque[Future[list[T]]] = deque()
    try:
        for some in itertools.islice(waiting, _TASKS_A_WORKER * num_workers):
            under_way.append(pool.submit(task, some))
        while under_way:
            yield from under_way.popleft().result()
            under_way.extend(pool.submit(task, some) for some in itertools.islice(waiting, 1))
    finally:  # stopped early, do not wait for a disk that may hang
        for future in under_way:
            future.cancel()
        pool.shutdown(wait=False)
