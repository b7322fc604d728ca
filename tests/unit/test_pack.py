"""The parts of the packer; tests/e2e/test_pack_command.py runs the whole command."""

from __future__ import annotations

import struct
import zlib

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mxtrain.errors import DataError
from tools.im2rec_wrapper import order
from tools.im2rec_wrapper.images import BadImage, prepare
from tools.im2rec_wrapper.sources import Item, read_folder


def item(name, label):
    return Item(name, label, lambda: b"")


def make_items(class_sizes):
    return [item(f"{label}/{n}.png", label) for label, size in enumerate(class_sizes) for n in range(size)]


# Order and split

class_sizes = st.lists(st.integers(1, 30), min_size=1, max_size=6)
shares = st.floats(0.01, 0.99)


@given(sizes=class_sizes, share=shares, seed=st.integers(-5, 2**40))
def test_a_split_is_complete_disjoint_and_stratified(sizes, share, seed):
    items = make_items(sizes)
    train, val = order.split(items, share, seed)
    assert sorted(i.name for i in train + val) == sorted(i.name for i in items)
    for label, size in enumerate(sizes):
        num_train = sum(i.label == label for i in train)
        assert num_train >= 1
        if size > 1:
            assert num_train < size
            assert abs(num_train - share * size) <= 0.5 or num_train in (1, size - 1)


@given(sizes=class_sizes, share=shares, data=st.data())
def test_the_order_items_are_found_in_does_not_matter(sizes, share, data):
    items = make_items(sizes)
    assert order.split(data.draw(st.permutations(items)), share, 3) == order.split(items, share, 3)


def test_another_seed_is_another_order_and_split():
    items = make_items([50, 50])
    assert order.shuffled(items, 1) != order.shuffled(items, 2)
    assert {i.name for i in order.split(items, 0.5, 1)[0]} != {i.name for i in order.split(items, 0.5, 2)[0]}


def test_classes_are_mixed():
    labels = [i.label for i in order.shuffled(make_items([500, 500]), 0)]
    changes = sum(a != b for a, b in zip(labels, labels[1:]))
    assert 400 < changes < 600


def test_items_keep_their_side_when_others_are_added():
    items = make_items([1000])
    before = {i.name for i in order.split(items, 0.9, 0)[1]}
    after = {i.name for i in order.split(make_items([1100]), 0.9, 0)[1]}
    assert len(before - after) <= 20


# Sources


def touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x")


def test_a_folder_is_a_class_however_deep_its_images_lie(tmp_path):
    for name in [
        "b/1.png",
        "b/deep/er/2.JPG",
        "a/3.jpeg",
        "b/.hidden.png",
        "b/.git/4.png",
        "b/notes.txt",
        "5.png",
    ]:
        touch(tmp_path / name)
    (tmp_path / "empty").mkdir()
    found = read_folder(tmp_path)
    assert found.class_names == ["a", "b"]
    assert [(i.name, i.label) for i in found.items] == [
        ("a/3.jpeg", 0),
        ("b/1.png", 1),
        ("b/deep/er/2.JPG", 1),
    ]
    assert found.items[0].read() == b"x"
    remarks = "\n".join(found.remarks)
    assert "empty has no images" in remarks
    assert "1 image(s) directly in" in remarks
    assert "1 file(s) that are no images" in remarks


def test_links_are_followed_but_not_in_circles(tmp_path):
    touch(tmp_path / "elsewhere" / "1.png")
    touch(tmp_path / "images" / "a" / "2.png")
    (tmp_path / "images" / "a" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "images" / "a" / "circle").symlink_to(tmp_path / "images" / "a")
    assert [i.name for i in read_folder(tmp_path / "images").items] == ["a/2.png", "a/linked/1.png"]


@pytest.mark.parametrize("name", ["with\ttab", "with\nbreak", b"\xff".decode("utf-8", "surrogateescape")])
def test_a_class_name_that_no_list_can_hold_is_refused(tmp_path, name):
    touch(tmp_path / name / "1.png")
    with pytest.raises(DataError, match="rename it"):
        read_folder(tmp_path)


# Images


def photo(height=60, width=90):
    noise = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return cv2.GaussianBlur(noise, (0, 0), 2)


def encoded(suffix, pixels=None):
    return cv2.imencode(suffix, photo() if pixels is None else pixels)[1].tobytes()


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".bmp", ".webp"])
def test_a_good_image_passes_through(suffix):
    data = encoded(suffix)
    assert prepare(data, None, None) == data


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".bmp", ".webp"])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.6, 0.95])
def test_a_cut_image_is_bad(suffix, share, capfd):
    data = encoded(suffix)
    with pytest.raises(BadImage):
        prepare(data[: int(share * len(data))], None, None)
    assert capfd.readouterr().err == ""  # the decoders' own lines would not name the file


def test_a_damaged_png_names_its_chunk():
    data = bytearray(encoded(".png"))
    data[len(data) // 2] ^= 16
    with pytest.raises(BadImage, match="PNG chunk at byte"):
        prepare(bytes(data), None, None)


def test_text_is_not_an_image():
    with pytest.raises(BadImage, match="not an image"):
        prepare(b"once upon a time", None, None)


def test_only_larger_images_shrink():
    data = encoded(".png", photo(60, 90))
    assert prepare(data, 60, None) == data
    assert cv2.imdecode(np.frombuffer(prepare(data, 30, None), np.uint8), 1).shape == (30, 45, 3)
    tall = encoded(".jpg", photo(200, 61))
    assert cv2.imdecode(np.frombuffer(prepare(tall, 60, None), np.uint8), 1).shape == (197, 60, 3)


def test_quality_re_encodes_every_image():
    data = encoded(".png")
    fine, coarse = prepare(data, None, 95), prepare(data, None, 20)
    assert fine.startswith(b"\xff\xd8")
    assert len(coarse) < len(fine)
    difference = cv2.imdecode(np.frombuffer(fine, np.uint8), 1).astype(int) - photo()
    assert np.abs(difference).mean() < 3


def test_a_turned_photo_is_upright_once_it_is_re_encoded():
    data = encoded(".jpg", photo(60, 90))
    tiff = b"MM\0*" + struct.pack(">IHHHIHHI", 8, 1, 0x0112, 3, 1, 6, 0, 0)  # orientation 6: turn clockwise
    exif = b"Exif\0\0" + tiff
    turned = data[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + data[2:]
    assert prepare(turned, None, None) == turned
    upright = cv2.imdecode(
        np.frombuffer(prepare(turned, None, 95), np.uint8), cv2.IMREAD_IGNORE_ORIENTATION | 1
    )
    assert upright.shape == (90, 60, 3)


def test_png_with_a_wrong_length_field_is_bad():
    body = b"IHDR" + bytes(13)
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 2**31) + body + struct.pack(">I", zlib.crc32(body))
    with pytest.raises(BadImage):
        prepare(data, None, None)
