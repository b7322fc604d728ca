"""What frames carry arrives whole and in order; whatever is changed, left out or repeated on the way does not."""

from __future__ import annotations

import os
import random

import pytest

from mxtrain.cluster.channel import Malformed
from mxtrain.cluster.gateway.frames import FRAME_BYTES, HEADER, TAG_BYTES, FrameCipher, new_key


def pair() -> tuple[FrameCipher, FrameCipher]:
    there, back = new_key(), new_key()
    return FrameCipher(there, back), FrameCipher(back, there)


@pytest.mark.parametrize("size", [0, 1, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 1, 5 * FRAME_BYTES])
def test_content_of_any_size_arrives_in_pieces_of_any_size(size: int) -> None:
    (here, there), rng, content = pair(), random.Random(size), os.urandom(size)
    encrypted, arrived = here.encrypt(content), b""
    assert content not in encrypted or size < 2
    while encrypted:
        cut = rng.randint(1, 200_000)
        arrived, encrypted = arrived + there.decrypt(encrypted[:cut]), encrypted[cut:]
    assert arrived == content


def test_each_direction_is_its_own() -> None:
    here, there = pair()
    assert there.decrypt(here.encrypt(b"one") + here.encrypt(b"two")) == b"onetwo"
    assert here.decrypt(there.encrypt(b"three")) == b"three"
    with pytest.raises(Malformed):
        here.decrypt(here.encrypt(b"sent back"))


def test_nothing_on_the_way_can_be_changed_left_out_repeated_or_moved() -> None:
    content = os.urandom(100)
    for change in range(HEADER.size, HEADER.size + len(content) + TAG_BYTES, 7):
        here, there = pair()
        frame = bytearray(here.encrypt(content))
        frame[change] ^= 1
        with pytest.raises(Malformed):
            there.decrypt(bytes(frame))
    for order in ([1], [0, 0], [1, 0], [0, 2]):
        here, there = pair()
        frames = [here.encrypt(bytes([number]) * 100) for number in range(3)]
        with pytest.raises(Malformed):
            there.decrypt(b"".join(frames[number] for number in order))


@pytest.mark.parametrize("size", [0, TAG_BYTES, FRAME_BYTES + TAG_BYTES + 1, 2**32 - 1])
def test_a_length_that_no_frame_has_is_refused_before_anything_is_kept(size: int) -> None:
    with pytest.raises(Malformed, match=f"a frame of {size} bytes"):
        pair()[1].decrypt(HEADER.pack(size))
