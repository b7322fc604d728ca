"""Reading and preparing items, in threads, with results in the order of the items.

Threads suffice, as reading and decoding release the interpreter's lock. Many read, because a cold disk is fast only
with many requests at once; as many as there are cores decode, which bounds the memory for pixels. Does not own what
preparing is (`images.py`, `tokens.py`).
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Callable, Iterable, Iterator, NamedTuple, Sequence, TypeVar, Union

from mxtrain.core.system.machine import usable_cores
from mxtrain.data.decode.jpeg import BadPicture
from mxtrain.data.packing.pictures.images import PackedItem
from mxtrain.data.packing.tokens import TaggedItem
from mxtrain.data.sources.item import BadItem, Item, Source

_AT_A_TIME = 8  # items a task: queueing one costs as much as reading a small file
_TASKS_A_WORKER = 2

T = TypeVar("T")
Prepare = Callable[[bytes], Union[PackedItem, TaggedItem]]


class PreparedItem(NamedTuple):
    """The result for one item."""

    packed: PackedItem | TaggedItem | None
    reason: str  # why the item is bad, where `packed` is None
    stamp: tuple[int, ...]  # of the item's own file, see `Source.stamp`


def prepare_items(
    items: Iterable[Item], source: Source, prepare: Prepare, num_workers: int | None
) -> Iterator[PreparedItem]:
    """Read each item from its source and `prepare` its bytes; yield the results in order.

    `num_workers` is the number of reading threads; None takes at least 16.
    """
    may_decode = threading.Semaphore(usable_cores())

    def of_some(some: Sequence[Item]) -> list[PreparedItem]:
        read = [(source.stamp(item), _read(source, item)) for item in some]
        with may_decode:
            return [_prepared(prepare, data, stamp) for stamp, data in read]

    return map_in_order(of_some, items, num_workers or max(16, usable_cores()))


def _read(source: Source, item: Item) -> bytes | str:
    """Return the bytes of an item, or as text why they cannot be read."""
    try:
        return source.read(item)
    except BadItem as error:
        return " ".join(str(error).split())
    except OSError as error:
        return f"it cannot be read ({error.strerror})"


def _prepared(prepare: Prepare, data: bytes | str, stamp: tuple[int, ...]) -> PreparedItem:
    if isinstance(data, str):
        return PreparedItem(None, data, stamp)
    try:
        return PreparedItem(prepare(data), "", stamp)
    except (BadPicture, BadItem) as error:
        return PreparedItem(None, " ".join(str(error).split()), stamp)


def map_in_order(
    work: Callable[[Sequence[Item]], Sequence[T]], items: Iterable[Item], num_workers: int
) -> Iterator[T]:
    """Call `work` in threads with a few items at a time, and yield its results in order; few tasks wait at once."""
    remaining = iter(items)
    tasks = iter(lambda: list(itertools.islice(remaining, _AT_A_TIME)), [])
    pool = ThreadPoolExecutor(num_workers)
    in_flight: deque[Future[Sequence[T]]] = deque()
    try:
        for some in itertools.islice(tasks, _TASKS_A_WORKER * num_workers):
            in_flight.append(pool.submit(work, some))
        while in_flight:
            yield from in_flight.popleft().result()
            in_flight.extend(pool.submit(work, some) for some in itertools.islice(tasks, 1))
    finally:  # stopped early, do not wait for a disk that may hang
        for future in in_flight:
            future.cancel()
        pool.shutdown(wait=False)
