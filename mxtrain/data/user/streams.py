"""A stream of samples, which has neither a length nor random access, as data that can be trained on.

Owns reading on in it: who needs which samples, what is kept of those that were read, and what a resume does. Position n
is the n-th sample since the stream's beginning, over all epochs. How long an epoch is, is --epoch-steps' to say; what
an item looks like is the task's.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import pickle
import threading
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping

import numpy as np

from mxtrain.core.errors import DataError, Stop, in_user_code
from mxtrain.data.interfaces import Record
from mxtrain.data.records.recordio import Floats, Ints
from mxtrain.data.user.user_datasets import RecordOf, UserDataset
from mxtrain.data.user.user_samples import in_numpy

logger = logging.getLogger(__name__)

NUM_FIRST = 8  # samples by which a stream is known again, unless its task looks at more
STEPS_KEPT = 10  # as many as may be loaded ahead, and those that a diagnosis looks at again
Open = Callable[[], Iterator[object]]


def is_stream(source: object) -> bool:
    """Return whether an object can be iterated, and no more than that."""
    is_iterable = hasattr(source, "__iter__") or hasattr(source, "__next__")
    return is_iterable and not hasattr(source, "__len__") and not hasattr(source, "__getitem__")


class Stream:
    """`Records` of what `begin` gives: each worker reads all of it, and keeps the samples that it needs.

    `name` and `flag` are the user's own, for messages. An epoch has `num_samples`. What is read is asked for in order,
    by `will_need` and then `read`; samples of the last steps of `batch_size` can be read again. The `num_first` samples
    are waited for at once, and stay at hand until they are learnt from.
    """

    def __init__(
        self,
        name: str,
        begin: Open,
        record_of: RecordOf,
        num_samples: int,
        batch_size: int,
        flag: str = "--train",
        num_first: int = NUM_FIRST,
    ):
        self.path = Path(name)
        self.files: list[Path] = []
        self.descriptors: tuple[int, ...] = ()
        self.class_names: list[str] | None = None
        self.keys: Ints = np.arange(num_samples)
        self._user, self._begin, self._record_of = f"{flag} {name}", begin, record_of
        self._flag = flag
        self._num_kept = STEPS_KEPT * batch_size
        self._lock = threading.Lock()
        self._wanted: set[int] = set()  # those that are still to come
        self._kept: dict[int, object] = {}  # in their order
        self._next = 0  # the position of what comes next
        self._items = self._begun()
        self._num_first = self._look_at_first(num_first)
        self.beginning = self._digest_of_first()

    def __len__(self) -> int:
        """Return the number of samples in an epoch."""
        return len(self.keys)

    def where(self, position: int) -> str:
        return f"{self.path}: sample {position} of the stream"

    def labels(self) -> Floats:
        """Return no labels: they are not known before they come."""
        return np.zeros(0, np.float32)

    def first(self) -> UserDataset:
        """Return the first samples as a data set, for what a task must know of them; before any is learnt from."""
        items = [self._kept[position] for position in range(self._num_first)]
        return UserDataset(str(self.path), items, self._flag, self._record_of)

    def will_need(self, positions: Ints) -> None:
        """Keep these samples when they come; others are left to other workers."""
        with self._lock:
            self._wanted.update(each for each in positions.tolist() if each not in self._kept)

    def read(self, position: int, verify: bool = True) -> Record:
        """Return the sample at `position`; DataError where the stream ends before it, or has passed it for good."""
        with self._lock, in_user_code(self._user):
            if position not in self._kept:
                self._read_on(position)
            item = self._kept[position]
            if isinstance(item, (tuple, list)):
                item = tuple(map(in_numpy, item))
            return self._record_of(position, item, self._user)

    def skip_to(self, position: int, on_progress: Callable[[bool], None]) -> None:
        """Leave out all samples before `position`: a resumed run has learnt from them."""
        with self._lock, in_user_code(self._user):
            while self._next < position:
                self._pull()
                on_progress(True)

    def go_on_at(self, position: int) -> None:
        """Call the first sample `position`: the stream is not what it was, and goes on with what comes now."""
        with self._lock:
            self._kept = {position + number: item for number, item in self._kept.items()}
            self._next += position

    def _read_on(self, position: int) -> None:
        if position < self._next:
            self._begin_again(position)
        self._wanted.add(position)
        while self._next <= position:
            self._pull()
        last = position - self._num_kept
        for old in list(itertools.takewhile(lambda each: each <= last, self._kept)):
            del self._kept[old]

    def _pull(self) -> None:
        """Read the next sample, and keep it if it is wanted."""
        try:
            item = next(self._items)
        except StopIteration:
            raise DataError(
                f"{self._user}: ended after {self._next} samples; make it endless, or give fewer --epochs or "
                "--epoch-steps"
            ) from None
        if self._next in self._wanted:
            self._wanted.remove(self._next)
            self._kept[self._next] = item
        self._next += 1

    def _begin_again(self, position: int) -> None:
        again = self._begun()
        if again is self._items:
            raise DataError(f"{self._user}: has passed sample {position}, and cannot begin again")
        self._wanted.update(self._kept)
        self._items, self._next, self._kept = again, 0, {}

    def _begun(self) -> Iterator[object]:
        with in_user_code(self._user):
            return iter(self._begin())

    def _look_at_first(self, number: int) -> int:
        """Read so many samples, which stay at hand; return how many there are."""
        self._wanted.update(range(number))
        return sum(1 for _ in itertools.takewhile(self._has, range(number)))

    def _digest_of_first(self) -> str:
        digest = hashlib.sha256()
        for position in range(self._num_first):
            record = self.read(position)
            # Labels as float32, whatever they are learnt as: digests of earlier versions are theirs.
            label = np.asarray(record.label, np.float32)
            for part in (label if label.ndim else float(label), record.payload):
                plain = np.asarray(part) if isinstance(part, (float, np.ndarray)) else part
                digest.update(plain.tobytes() if isinstance(plain, np.ndarray) else pickle.dumps(plain, 4))
        return digest.hexdigest()[:16]

    def _has(self, position: int) -> bool:
        """Return whether the stream goes so far."""
        try:
            with self._lock, in_user_code(self._user):
                while self._next <= position:
                    self._pull()
        except Stop:
            if not position:
                raise
            return False
        return True


def resume(
    stream: Stream, state: Mapping[str, Any], batch_size: int, on_progress: Callable[[bool], None]
) -> None:
    """Bring `stream` to where a checkpoint's `state` has left it.

    One that begins as it did then is read again so far. Any other goes on with what comes now, as a socket does.
    """
    position, before = state["step"] * batch_size, (state.get("training_set") or {}).get("beginning")
    if before == stream.beginning:
        stream.skip_to(position, on_progress)
        return
    logger.warning(
        "%s: does not begin with the samples it began with before, so the run goes on with what comes now: not to the "
        "bit as it would have without the stop",
        stream.path,
    )
    stream.go_on_at(position)
