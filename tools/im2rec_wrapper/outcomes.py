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

from mxtrain.core.machine import usable_cores
from mxtrain.data.jpeg import BadPicture
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

    def of_some(some: Sequence[Item]) -> list[Outcome]:
        read = [(source.stamp(item), _read(source, item)) for item in some]
        with may_decode:
            return [_outcome(prepare, data, stamp) for stamp, data in read]

    return in_order(of_some, items, num_workers or max(16, usable_cores()))


def _read(source: Source, item: Item) -> bytes | str:
    """Its bytes, or why they cannot be read."""
    try:
        return source.read(item)
    except BadItem as error:
        return " ".join(str(error).split())
    except OSError as error:
        return f"it cannot be read ({error.strerror})"


def _outcome(prepare: Callable[[bytes], Packed], data: bytes | str, stamp: tuple[int, ...]) -> Outcome:
    if isinstance(data, str):
        return Outcome(None, data, stamp)
    try:
        return Outcome(prepare(data), "", stamp)
    except (BadPicture, BadItem) as error:
        return Outcome(None, " ".join(str(error).split()), stamp)


def in_order(
    work: Callable[[Sequence[Item]], Sequence[T]], items: Iterable[Item], num_workers: int
) -> Iterator[T]:
    """What `work` makes of all items, a few at a time, with a bounded number under way."""
    remaining = iter(items)
    tasks = iter(lambda: list(itertools.islice(remaining, _AT_A_TIME)), [])
    pool = ThreadPoolExecutor(num_workers)
    under_way: deque[Future[Sequence[T]]] = deque()
    try:
        for some in itertools.islice(tasks, _TASKS_A_WORKER * num_workers):
            under_way.append(pool.submit(work, some))
        while under_way:
            yield from under_way.popleft().result()
            under_way.extend(pool.submit(work, some) for some in itertools.islice(tasks, 1))
    finally:  # stopped early, do not wait for a disk that may hang
        for future in under_way:
            future.cancel()
        pool.shutdown(wait=False)
