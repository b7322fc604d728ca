from __future__ import annotations

import importlib.util
import itertools
from pathlib import Path

import cv2
import numpy as np
import pytest

from mxtrain.data.packing.pictures import fingerprints

# scikit-learn's bundled pictures, without loading scikit-learn: that takes two seconds, in each process of the tests.
SAMPLES = Path(importlib.util.find_spec("sklearn").origin).parent / "datasets"


def crops(num):
    """Cut different parts of two photographs."""
    random = np.random.default_rng(0)
    photos = [cv2.imread(str(SAMPLES / "images" / name)) for name in ("china.jpg", "flower.jpg")]
    for number in range(num):
        top, left = random.integers(0, 427 - 200), random.integers(0, 640 - 200)
        yield photos[number % 2][top : top + 200, left : left + 200]


def saved_again(pixels, quality, side=None):
    if side:
        pixels = cv2.resize(pixels, (side, side), interpolation=cv2.INTER_AREA)
    return cv2.imdecode(
        cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, quality])[1], cv2.IMREAD_COLOR
    )


def near_pairs(pictures, sets=None):
    found = [fingerprints.of_pixels(pixels) for pixels in pictures]
    hashes = np.array([each.hash for each in found], np.uint64)
    thumbnails = np.array([each.thumbnail.ravel() for each in found])
    sets = np.zeros(len(pictures), np.int64) if sets is None else np.array(sets)
    return fingerprints.near_pairs(hashes, thumbnails, sets)


@pytest.mark.parametrize(("quality", "side"), [(90, None), (50, None), (90, 100), (75, 150)])
def test_photographs_saved_again_are_found(quality, side):
    originals = list(crops(60))
    copies = [saved_again(pixels, quality, side) for pixels in originals]
    found = near_pairs(originals + copies, [0] * 60 + [1] * 60)
    right = {(number, number + 60) for number in range(60)}
    assert len(right & set(found)) >= 0.9 * len(right)
    assert len(set(found) - right) <= 3  # crops that happen to lie nearly on top of each other


def test_different_digits_are_not_taken_for_one():
    """1,797 pictures of ten shapes in the same place: the hash alone finds dozens of pairs."""
    digits = np.loadtxt(SAMPLES / "data" / "digits.csv.gz", delimiter=",")[:, :-1].reshape(-1, 8, 8)
    assert len(digits) == 1797
    pictures = [cv2.resize(digit * 15.9, (32, 32)).astype(np.uint8) for digit in digits]
    assert near_pairs([cv2.cvtColor(grey, cv2.COLOR_GRAY2RGB) for grey in pictures]) == []


def test_plain_pictures_of_different_colours_are_no_copies():
    plain = [np.full((50, 50, 3), colour, np.uint8) for colour in [(255, 0, 0), (0, 255, 0), (254, 1, 0)]]
    assert near_pairs(plain) == [(0, 2)]


def test_near_pairs_are_those_of_comparing_all_with_all():
    random = np.random.default_rng(1)
    base = random.integers(0, 2**63, 300, np.uint64)
    flips = [sum(1 << int(bit) for bit in random.choice(64, random.integers(0, 4), False)) for _ in base]
    hashes = np.concatenate([base, base ^ np.array(flips, np.uint64)])
    thumbnails = np.zeros((600, 48), np.uint8)
    thumbnails[550:] = 200
    sets = random.integers(0, 3, 600)
    first = {}
    for one, other in itertools.combinations(range(600), 2):
        bits = bin(int(hashes[one]) ^ int(hashes[other])).count("1")
        if bits <= fingerprints.MAX_BITS and thumbnails[one, 0] == thumbnails[other, 0]:
            first.setdefault((other, sets[one]), one)
    assert first
    expected = sorted((later, earlier) for (later, _), earlier in first.items())
    assert (
        sorted((later, earlier) for earlier, later in fingerprints.near_pairs(hashes, thumbnails, sets))
        == expected
    )


def test_very_many_blank_pictures_do_not_take_for_ever():
    num = 100_000
    sets = np.arange(num) % 2
    pairs = fingerprints.near_pairs(np.zeros(num, np.uint64), np.zeros((num, 48), np.uint8), sets)
    assert {later for _, later in pairs} == set(range(1, num))


def test_exact_pairs_name_the_first_of_each_set():
    digests = np.array([7, 5, 7, 9, 7, 7], np.uint64)
    sets = np.array([0, 0, 0, 0, 1, 1])
    assert fingerprints.exact_pairs(digests, sets) == [(0, 2), (0, 4), (0, 5), (4, 5)]
    assert fingerprints.exact_pairs(digests[:0], sets[:0]) == []
