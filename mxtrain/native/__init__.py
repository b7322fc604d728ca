"""The C extension: boxes of JPEGs, resized pixels, planes of pixels, JPEGs with restart markers, checksums, MXNet's
random numbers, exact sums, rows of tables, and beside it operators for MXNet's graphs.

Owns importing it. It is built where mxtrain is installed with a C compiler, and needs AVX2 and FMA. Without it all
functions but `crc32` are None: their callers do the same in more time, or leave restart markers out.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import zlib
from typing import Any, Callable

logger = logging.getLogger(__name__)

Function = Callable[..., Any]
INTERFACE = (
    9  # of the functions below; a checkout that was updated may hold what was built from its older sources
)

_built: Any
try:
    _built = importlib.import_module("mxtrain.native._built")
except ImportError:
    _built = None
if _built is not None and getattr(_built, "INTERFACE", 1) != INTERFACE:
    logger.warning(
        "mxtrain's part in C is another version's and is left out: run `make env`, or `pip install -e .`"
    )
    _built = None

# zlib's crc32(data, value=0), where it is built 3 times as fast as zlib's own
crc32: Function = getattr(_built, "crc32", zlib.crc32)
# jpeg_size(payload) -> (height, width) of a JPEG that `crop` may decode, or None
jpeg_size: Function | None = getattr(_built, "jpeg_size", None)
# crop(payload, top, left, height, width, to_height=height, to_width=width) -> RGB in a bytearray, or None for a kind of
# JPEG that it does not decode, or sides that shrink to half or less
crop: Function | None = getattr(_built, "crop", None)
# resize(image, height, width) -> RGB in a bytearray, or None as above
resize: Function | None = getattr(_built, "resize", None)
# planes(image, out, scale, offset)
planes: Function | None = getattr(_built, "planes", None)
# rewrite_jpeg(payload, interval) -> the same coefficients with restart markers in bytes, or text: why there are none
rewrite_jpeg: Function | None = getattr(_built, "rewrite_jpeg", None)
# random_streams(seed) -> the beginning of MXNet's streams of random numbers
random_streams: Function | None = getattr(_built, "random_streams", None)
# draw_uniform(streams, low, high, out), draw_normal(streams, mean, deviation, out): fill float32 as MXNet does
draw_uniform: Function | None = getattr(_built, "draw_uniform", None)
draw_normal: Function | None = getattr(_built, "draw_normal", None)
# add_on_grid(total, values, exponents, reach, is_first, maxima), block_maxima(values, maxima): see optim/sums/grid.py
add_on_grid: Function | None = getattr(_built, "add_on_grid", None)
block_maxima: Function | None = getattr(_built, "block_maxima", None)
# new_addition(...) -> the address of an addition that the function at ADD_IN_ENGINE does later, and that at FREE frees
new_addition: Function | None = getattr(_built, "new_addition", None)
ADD_IN_ENGINE: int = getattr(_built, "ADD_IN_ENGINE", 0)
FREE: int = getattr(_built, "FREE", 0)
# find_slots(places, num_places, ids, wanted, slots), insert_slots(places, num_places, ids, slots): see tables/index.py
find_slots: Function | None = getattr(_built, "find_slots", None)
insert_slots: Function | None = getattr(_built, "insert_slots", None)
# hash_texts(data, starts, ends, hashes): see tables/hashing.py
hash_texts: Function | None = getattr(_built, "hash_texts", None)
# read_rows(rows, slots, ids, key, scale, step, out), move_rows(...): see tables/arena.py and tables/movement.py
read_rows: Function | None = getattr(_built, "read_rows", None)
move_rows: Function | None = getattr(_built, "move_rows", None)
# gather(column, item_bytes, slots, records, offset): see tables/records.py
gather: Function | None = getattr(_built, "gather", None)
# find_records(file, start, record_bytes, num_records, ids, are_there, records): see tables/saved_table.py
find_records: Function | None = getattr(_built, "find_records", None)
# take_rows(rows, positions, out), add_rows(sums, places, rows), square_rows(rows, squares), distinct_ids(ids, places,
# distinct, positions) -> their number, add_by_exponent(values, sums): see tables/sums.py
take_rows: Function | None = getattr(_built, "take_rows", None)
add_rows: Function | None = getattr(_built, "add_rows", None)
square_rows: Function | None = getattr(_built, "square_rows", None)
add_by_exponent: Function | None = getattr(_built, "add_by_exponent", None)
distinct_ids: Function | None = getattr(_built, "distinct_ids", None)
# take_fields(rows, positions, vectors, sums, squares), add_fields(rows, positions, vectors, of_vectors, of_sums,
# of_squares): see tables/sums.py
take_fields: Function | None = getattr(_built, "take_fields", None)
add_fields: Function | None = getattr(_built, "add_fields", None)


def _library(name: str) -> str | None:
    """Return the path of a part that Python does not import, if it is built, and for this CPU and these sources."""
    found = None if _built is None else importlib.util.find_spec(f"{__name__}.{name}")
    return None if found is None else found.origin


# Which operators there are, what bits they compute, and which graphs have them: counted up with a change of any
OPERATORS_VERSION = 10
# The operators that MXNet loads, by runtime/own_operators.py; None where they are not built, or it cannot load them
OPERATORS: str | None = _library("_operators")


def kernels() -> dict[str, str]:
    """Return the kernels of these operators, as `core/system/kernels.py` has those of other libraries."""
    return {"mxtrain": "none" if OPERATORS is None else f"FMA, {OPERATORS_VERSION}"}
