"""The fingerprints by which copies of a picture are found, and the search for pairs among a million of them.

Exact copies have the same digest of their payload. Near copies are pictures that were saved again, in another
quality, format or size; not ones that were cropped, mirrored or recoloured. They agree in a perceptual hash, the
signs of the lowest frequencies (pHash), up to MAX_BITS bits, and in a thumbnail, up to MAX_DIFFERENCE grey levels:
the hash alone takes two handwritten digits for one picture. The package imagehash has the same hash, in ten times
the time and with SciPy and PyWavelets; this is six lines of OpenCV.
"""

from __future__ import annotations

import hashlib
from typing import Any, Iterator, NamedTuple, Tuple

import numpy as np
import numpy.typing as npt

from mxtrain.core.opencv import cv2
from mxtrain.data.decode.jpeg import Payload, Pixels
from mxtrain.data.records.recordio import Ints

MAX_BITS = 5
MAX_DIFFERENCE = 3.0
THUMBNAIL_SIDE = 4
# Hashes with one of these bands in common are compared: every pair that differs in fewer bits than there are bands,
# and most that differ in a few more.
_NUM_BANDS, _BAND_BITS = 4, 16
# Where very many have a band in common (nearly blank ones), each is compared with this many next to it in order.
_MAX_NEIGHBOURS = 500
_HASHED_SIDE, _LOWEST = 32, 8

Hashes = npt.NDArray[np.uint64]
Pair = Tuple[int, int]


def digest(payload: Payload) -> int:
    """Return 64 bits: among a million different payloads two agree once in 40 million times."""
    return int.from_bytes(hashlib.blake2b(payload, digest_size=8).digest(), "little")


def digest_text(digest: int) -> str:
    """Return a digest as reports and lists write it."""
    return f"{digest:016x}"


class Fingerprint(NamedTuple):
    """Properties in which near copies of a picture nearly agree."""

    hash: int  # 63 bits
    thumbnail: Pixels  # THUMBNAIL_SIDE pixels a side


def of_pixels(pixels: Pixels) -> Fingerprint:
    """Return the signs of a picture's lowest frequencies, and its thumbnail, both of one small picture of it."""
    small = cv2.resize(pixels, (_HASHED_SIDE, _HASHED_SIDE), interpolation=cv2.INTER_AREA)
    grey = cv2.cvtColor(small, cv2.COLOR_RGB2GRAY).astype(np.float32)
    # Rounded, or a plain picture's hash would be the rounding errors of the transform.
    waves = cv2.dct(grey)[:_LOWEST, :_LOWEST].round().ravel()[1:]
    bits = np.packbits(waves > np.median(waves))
    thumbnail = cv2.resize(small, (THUMBNAIL_SIDE, THUMBNAIL_SIDE), interpolation=cv2.INTER_AREA)
    return Fingerprint(int.from_bytes(bits.tobytes(), "little"), thumbnail)


def pairs_of(
    digests: Hashes, hashes: Hashes, thumbnails: npt.NDArray[np.uint8], sets: Ints
) -> tuple[list[Pair], list[Pair]]:
    """Return the pairs of exact copies and those of near copies; where nothing was decoded, there are no hashes.

    Of exact copies in one set, only the first is compared with others.
    """
    exact = exact_pairs(digests, sets)
    if len(hashes) < len(digests):
        return exact, []
    again = [later for first, later in exact if sets[first] == sets[later]]
    items = np.setdiff1d(np.arange(len(digests)), again)
    pairs = near_pairs(hashes[items], thumbnails[items], sets[items])
    named = [(int(items[first]), int(items[later])) for first, later in pairs]
    return exact, [(first, later) for first, later in named if digests[first] != digests[later]]


def exact_pairs(digests: Hashes, sets: Ints) -> list[Pair]:
    """Return pairs of indices: each item with the first one before it of the same digest, in each set that has one."""
    _, group, sizes = np.unique(digests, return_inverse=True, return_counts=True)
    first_of_set: dict[int, dict[int, int]] = {}  # by group
    pairs: list[Pair] = []
    for item in np.flatnonzero(sizes[group] > 1).tolist():
        firsts = first_of_set.setdefault(int(group[item]), {})
        pairs += [(first, item) for first in firsts.values()]
        firsts.setdefault(int(sets[item]), item)
    return pairs


def near_pairs(hashes: Hashes, thumbnails: npt.NDArray[np.uint8], sets: Ints) -> list[Pair]:
    """Return pairs of indices: each item with the first near copy before it, in each set that has one."""
    num_items, num_sets = len(hashes), int(sets.max()) + 1 if len(sets) else 0
    both = np.column_stack([hashes.view(np.uint8).reshape(num_items, 8), thumbnails])
    # A million blank pictures are one fingerprint, not 5e11 pairs.
    _, chosen, group = np.unique(
        both.view(f"V{both.shape[1]}").ravel(), return_index=True, return_inverse=True
    )
    first_of_group = np.full((num_sets, len(chosen)), num_items, np.int64)
    np.minimum.at(first_of_group, (sets, group), np.arange(num_items))
    first = first_of_group.copy()
    hashes, thumbnails = hashes[chosen], thumbnails[chosen]
    for one, other in _candidates(hashes):
        is_near = _num_bits(hashes[one] ^ hashes[other]) <= MAX_BITS
        one, other = one[is_near], other[is_near]
        is_near = _difference(thumbnails[one], thumbnails[other]) <= MAX_DIFFERENCE
        one, other = one[is_near], other[is_near]
        for in_set, first_in_set in zip(first_of_group, first):
            np.minimum.at(first_in_set, one, in_set[other])
            np.minimum.at(first_in_set, other, in_set[one])
    first_of_item = first[:, group].transpose()
    items, of_sets = np.nonzero(first_of_item < np.arange(num_items)[:, None])
    return list(zip(first_of_item[items, of_sets].tolist(), items.tolist()))


def _candidates(hashes: Hashes) -> Iterator[tuple[Ints, Ints]]:
    """Yield pairs of items that agree in a band, as two arrays; some more than once."""
    for band in range(_NUM_BANDS):
        part = hashes >> np.uint64(band * _BAND_BITS) & np.uint64((1 << _BAND_BITS) - 1)
        order = np.lexsort((hashes, part))
        part = part[order]
        alive = np.arange(len(order))
        for distance in range(1, _MAX_NEIGHBOURS + 1):
            alive = alive[alive + distance < len(order)]
            alive = alive[part[alive] == part[alive + distance]]
            if not len(alive):
                break
            yield order[alive], order[alive + distance]


def _num_bits(words: Hashes) -> Ints:
    """Count the bits set: in pairs of bits, in fours, in bytes, and the bytes summed by one product."""
    in_pairs = words - (words >> np.uint64(1) & np.uint64(0x5555555555555555))
    mask = np.uint64(0x3333333333333333)
    in_fours = (in_pairs & mask) + (in_pairs >> np.uint64(2) & mask)
    in_bytes = in_fours + (in_fours >> np.uint64(4)) & np.uint64(0x0F0F0F0F0F0F0F0F)
    num_bits: Ints = (in_bytes * np.uint64(0x0101010101010101) >> np.uint64(56)).astype(np.int64)
    return num_bits


def _difference(one: npt.NDArray[np.uint8], other: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    levels: npt.NDArray[Any] = np.abs(one.astype(np.int16) - other)
    return levels.reshape(len(one), -1).mean(1) if len(one) else np.zeros(0)
