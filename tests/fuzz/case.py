"""One damaged input, made from a seed, and all assertions about it.

Reading, decoding, loading and checking it ends in the right result, or in a DataError of one line that names the file.
With checksums the right result is known: it is what was written. A file in which `check` finds nothing wrong must load,
and a file that does not load must be wrong to `check`.
"""

from __future__ import annotations

import functools
import random
import tempfile
from pathlib import Path

import numpy as np

from mxtrain.core.errors import DataError
from mxtrain.data.augment.transforms import eval_transform
from mxtrain.data.decode import decoding
from mxtrain.data.decode.jpeg import BadPicture, Box
from mxtrain.data.image_fields import picture_assembly
from mxtrain.data.loading import order
from mxtrain.data.loading.loader import Loader, LoaderOptions, Request
from mxtrain.data.records.record_file import RecordFile, index_path, open_records
from tests.fuzz import mutations, originals
from tests.fuzz.originals import Original
from tools.im2rec_wrapper.checking.check import check

SIZE = 16
TRANSFORM = eval_transform(SIZE, SIZE)


def run(seed: int, folder: Path) -> str:
    """Run one input, and return what was damaged; any exception is a failure."""
    draw = random.Random(seed)
    kind = draw.choices((damaged_rec, damaged_index, damaged_picture), weights=(45, 20, 35))[0]
    return f"{kind.__name__}: {kind(draw, folder / 'fuzz.rec')}"


@functools.lru_cache(maxsize=None)
def good_files() -> tuple[Original, Original, Original]:
    """Return two of our files, with different keys and sizes, and one of another tool."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.rec"
        some, others = list(originals.pictures(1).values()), list(originals.pictures(2).values())
        return (
            originals.ours(path, 0, some),
            originals.ours(path, 100, others[:5]),
            originals.foreign(path, some),
        )


def damaged_rec(draw: random.Random, path: Path) -> str:
    one, two, other_tool = good_files()
    original = draw.choice((one, one, one, other_tool))
    with_index = draw.random() < 0.5
    original.write(path, with_index)
    kinds = {**mutations.ANY, **mutations.records(original.offsets), "splice": mutations.splice(two.rec)}
    damaged, names = mutations.mutate(draw, original.rec, kinds)
    path.write_bytes(damaged)
    was_refused = read_everything(path, {**original.contents, **two.contents})
    is_wrong = check_says_wrong(path)
    assert is_wrong or not was_refused, "refused, but check finds nothing wrong"
    if original.has_checksums and with_index and damaged != original.rec:
        assert is_wrong, "check does not see that the .rec was changed"
    return names


def damaged_index(draw: random.Random, path: Path) -> str:
    one, two, other_tool = good_files()
    original = draw.choice((one, one, other_tool))
    original.write(path, with_index=True)
    damaged, names = mutations.mutate(
        draw, original.index, {**mutations.INDEX, "splice": mutations.splice(two.index)}
    )
    index_path(path).write_bytes(damaged)
    was_refused = read_everything(path, original.contents)
    is_wrong = check_says_wrong(path)
    assert is_wrong or not was_refused, "refused, but check finds nothing wrong"
    if sorted(damaged.splitlines()) == sorted(original.index.splitlines()):
        assert not was_refused, "the same lines in another order were refused"
    return names


def damaged_picture(draw: random.Random, path: Path) -> str:
    """Check an undamaged .rec with one picture that was damaged before it was packed."""
    seed = draw.randrange(3)
    kind, payload = draw.choice(sorted(originals.pictures(seed).items()))
    ways = mutations.JPEG if kind.startswith("jpeg") else mutations.PNG if kind == "png" else mutations.ANY
    damaged, names = mutations.mutate(draw, payload, ways)
    others = list(originals.pictures(7).values())[:3]
    original = originals.ours(path, 0, [others[0], damaged, *others[1:]])
    original.write(path, with_index=True)
    was_refused = read_everything(path, original.contents)
    assert check_says_wrong(path) == was_refused
    if kind == "png":
        assert_png_is_right(payload, damaged)
    assert_crops_are_right(draw, damaged)
    return f"{kind} {names}"


def read_everything(path: Path, contents: dict[int, tuple[float, bytes]]) -> bool:
    """Open, read, decode and load all, assert that what loads is right, and return whether any of it was refused."""
    try:
        records = open_records(path)
    except DataError as error:
        assert_clear(error, path)
        return True
    good = [position for position in range(len(records)) if reads_right(records, position, contents)]
    decodable = [position for position in good if is_picture(records, position)]
    assert_loads(records, decodable)
    if len(decodable) < len(records):
        refused = next(position for position in range(len(records)) if position not in decodable)
        assert_refuses(records, refused, path)
    return len(decodable) < len(records)


def reads_right(records: RecordFile, position: int, contents: dict[int, tuple[float, bytes]]) -> bool:
    try:
        record = records.read(position)
    except DataError as error:
        assert_clear(error, records.path)
        return False
    if records.has_checksums:
        assert contents.get(record.key) == (record.label, bytes(record.payload)), "not what was written"
    return isinstance(record.label, float)


def is_picture(records: RecordFile, position: int) -> bool:
    try:
        pixels = decoding.decode(records.read(position).payload)
    except BadPicture as bad:
        assert len(str(bad).splitlines()) == 1
        return False
    assert pixels.dtype == np.uint8
    assert pixels.ndim == 3
    assert pixels.shape[2] == 3
    return True


def assert_loads(records: RecordFile, positions: list[int]) -> None:
    """The loader gives exactly what the transform makes of these records."""
    for request, batch in loaded(records, positions):
        for sample, data, label in zip(request.samples.tolist(), batch.arrays["data"], batch.arrays["label"]):
            expected = np.empty_like(data)
            record = records.read(sample)
            TRANSFORM(record.payload, None, expected)
            np.testing.assert_array_equal(data, expected)
            np.testing.assert_array_equal(label, record.label)


def assert_refuses(records: RecordFile, position: int, path: Path) -> None:
    """The loader does, or makes right pixels of the part that it decodes: a crop does not see all damage."""
    try:
        for _ in loaded(records, [position]):
            pass
    except DataError as error:
        assert_clear(error, path)


def loaded(records: RecordFile, positions: list[int]) -> list:
    requests = [
        Request(0, place, 0, samples)
        for place, samples in enumerate(order.micro_batches(np.array(positions, np.int64), 4))
    ]
    assembly = picture_assembly(records, TRANSFORM, SIZE, seed=0)
    with Loader(assembly, requests, LoaderOptions(loader="threads", workers="2")) as loader:
        return list(zip(requests, loader))


def check_says_wrong(path: Path) -> bool:
    findings = check([path]).findings
    for finding in findings:
        assert len(finding.text.splitlines()) == 1
        assert path.stem in finding.text
    return any(finding.is_wrong for finding in findings)


def assert_png_is_right(payload: bytes, damaged: bytes) -> None:
    """PNG has checksums: what still decodes has the pixels that it had, unless its header says otherwise."""
    try:
        pixels = decoding.decode(damaged)
    except BadPicture:
        return
    if damaged[:33] == payload[:33]:
        np.testing.assert_array_equal(pixels, decoding.decode(payload))


def assert_crops_are_right(draw: random.Random, payload: bytes) -> None:
    """A part decoded by itself has the pixels of the whole."""
    try:
        whole = decoding.decode(payload)
    except BadPicture:
        return
    height, width = whole.shape[:2]
    top, left = draw.randrange(height), draw.randrange(width)
    box = Box(top, left, draw.randint(1, height - top), draw.randint(1, width - left))
    part = decoding.decode_crop(payload, lambda *_: box, max(height, width))
    np.testing.assert_array_equal(part, whole[top : top + box.height, left : left + box.width])


def assert_clear(error: DataError, path: Path) -> None:
    assert len(str(error).splitlines()) == 1
    assert path.stem in str(error)
