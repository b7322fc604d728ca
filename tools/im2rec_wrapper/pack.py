"""From a source to .rec files, read top to bottom in `pack`.

`pack SOURCE OUT` writes OUT/data.rec, or OUT itself where it ends in .rec; with a split OUT/train.rec and
OUT/val.rec. Beside each lie its .idx and its .classes.tsv, which has the same names in the same order for both.
All files appear together at the end, or none. OUT.bad.tsv lists the images that could not be packed: name, reason.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import time
from collections import Counter, deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterator, Sequence, Tuple, Union

from mxtrain.data import recordio
from mxtrain.data.record_writer import RecordWriter, Replacement
from mxtrain.data.records import classes_path
from mxtrain.errors import DataError, UsageError
from tools.im2rec_wrapper import order
from tools.im2rec_wrapper.images import BadImage, prepare
from tools.im2rec_wrapper.progress import shown
from tools.im2rec_wrapper.sources import Item, Source, read_folder

Outcome = Union[bytes, BadImage]
Bad = Tuple[str, str]  # name, reason
Counts = Dict[Path, "Counter[int]"]  # for each .rec, how many images of each label


@dataclass(frozen=True)
class Options:
    train_share: float | None = None
    seed: int = 0
    short_side: int | None = None
    quality: int | None = None
    skip_bad: bool = False
    num_workers: int | None = None


def pack(source: Path, out: Path, options: Options) -> None:
    started = time.monotonic()
    found = read_folder(source)
    for remark in found.remarks:
        print(f"im2rec_wrapper: warning: {remark}", file=sys.stderr)
    parts = _divide(found.items, out, options)
    with _folder(next(iter(parts)).parent):
        counts, bad = _write(parts, found, options, bad_list=_bad_list_path(out))
    for line in _summary(found, counts, bad, time.monotonic() - started):
        print(line)


def _divide(items: Sequence[Item], out: Path, options: Options) -> dict[Path, list[Item]]:
    """The items of each .rec, in their order."""
    if options.train_share is None:
        path = out if out.suffix == ".rec" else out / "data.rec"
        return {path: order.shuffled(items, options.seed)}
    if out.suffix == ".rec":
        raise UsageError(f"--split writes two files, so OUT must be a folder, not {out}")
    train, val = order.split(items, options.train_share, options.seed)
    if not val:
        raise DataError("no class has the two images that a split needs: pack without --split")
    return {out / "train.rec": train, out / "val.rec": val}


def _write(
    parts: dict[Path, list[Item]], found: Source, options: Options, bad_list: Path
) -> tuple[Counts, list[Bad]]:
    """Write all parts, or none; how many images of each label each has, and the bad images with the reason."""
    counts: Counts = {path: Counter() for path in parts}
    bad: list[Bad] = []
    with contextlib.ExitStack() as whole_files:
        writers = {path: whole_files.enter_context(RecordWriter(path)) for path in parts}
        planned = [(path, item) for path, items in parts.items() for item in items]
        outcomes = shown(_prepare_all([item for _, item in planned], options), len(planned))
        for outcome, (path, item) in zip(outcomes, planned):
            if isinstance(outcome, BadImage):
                bad.append((_printable(item.name), str(outcome)))
                continue
            writers[path].write(len(writers[path]), item.label, outcome)
            counts[path][item.label] += 1
        _settle_bad(bad, bad_list, options.skip_bad)
        for path, writer in writers.items():
            if not len(writer):
                raise DataError(f"no good image is left for {path}: see {bad_list}")
            classes = whole_files.enter_context(Replacement(classes_path(path)))
            num_images = [counts[path][label] for label in range(len(found.class_names))]
            classes.write(recordio.format_classes(found.class_names, num_images))
            writer.sync()
    return counts, bad


def _prepare_all(items: Sequence[Item], options: Options) -> Iterator[Outcome]:
    """What becomes of each item, in order, with a bounded number under way.

    Threads suffice, as reading and decoding leave the interpreter's lock; there are at least 16 because a cold disk
    wants many requests at once.
    """
    num_workers = options.num_workers or max(16, os.cpu_count() or 1)

    def outcome(item: Item) -> Outcome:
        try:
            return prepare(item.read(), options.short_side, options.quality)
        except BadImage as bad:
            return bad
        except OSError as error:
            return BadImage(f"it cannot be read ({error.strerror})")

    pool = ThreadPoolExecutor(num_workers)
    remaining = iter(items)
    under_way: deque[Future[Outcome]] = deque()
    try:
        under_way.extend(pool.submit(outcome, item) for item in itertools.islice(remaining, 4 * num_workers))
        while under_way:
            yield under_way.popleft().result()
            under_way.extend(pool.submit(outcome, item) for item in itertools.islice(remaining, 1))
    finally:  # stopped early, do not wait for a disk that may hang
        for future in under_way:
            future.cancel()
        pool.shutdown(wait=False)


def _settle_bad(bad: Sequence[Bad], bad_list: Path, skip_bad: bool) -> None:
    """List the bad images, and end here unless they may be skipped."""
    if not bad:
        bad_list.unlink(missing_ok=True)  # of an earlier run
        return
    with Replacement(bad_list) as file:
        for name, reason in bad:
            file.write(os.fsencode(f"{name}\t{reason}\n"))
    if not skip_bad:
        (name, reason), remedy = bad[0], "mend or remove them, or add --skip-bad; nothing was packed"
        raise DataError(
            f"{len(bad)} bad images, all listed in {bad_list} (the first: {name}: {reason}): {remedy}"
        )


def _bad_list_path(out: Path) -> Path:
    named = out if out.name not in ("", "..") else out.resolve()
    return named.with_name(named.name + ".bad.tsv")


def _printable(name: str) -> str:
    """The name on one line of UTF-8, whatever the file system allows."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in name)


@contextlib.contextmanager
def _folder(path: Path) -> Iterator[None]:
    """The folder, made if need be; if so and the block leaves it empty, it goes again."""
    is_new = not path.exists()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make folder {path}: {error.strerror}; choose another OUT") from None
    try:
        yield
    finally:
        if is_new:
            with contextlib.suppress(OSError):
                path.rmdir()


def _summary(found: Source, counts: Counts, bad: Sequence[Bad], seconds: float) -> Iterator[str]:
    num_images = sum(sum(count.values()) for count in counts.values())
    skipped = f", {len(bad)} bad ones skipped" if bad else ""
    yield f"packed {num_images} images of {len(found.class_names)} classes in {seconds:.1f} s{skipped}"
    for path, count in counts.items():
        a_class = [count[label] for label in range(len(found.class_names))]
        yield f"  {path}: {sum(a_class)} images, {min(a_class)} to {max(a_class)} a class ({classes_path(path)})"
