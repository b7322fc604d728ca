import io
import os
import struct
import subprocess
import sys
import threading
import zipfile

import cv2
import numpy as np
import pytest
from PIL import Image

from mxtrain import config
from mxtrain.core.errors import DataError, UsageError
from mxtrain.core.system import machine
from mxtrain.data.augment.transforms import eval_transform, train_transform
from mxtrain.data.decode import cache_index, decoding, jpeg, pixel_cache
from mxtrain.data.decode.pixel_cache import in_memory, on_disk
from mxtrain.data.records import record_writer
from mxtrain.data.records.record_writer import open_alone
from tests.support.data.loading import (
    NUM_SAMPLES,
    SIZE,
    jpegs,
    opened,
    requests,
    with_bad_ones,
    write_records,
)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return write_records(tmp_path_factory.mktemp("records") / "some.rec", jpegs(NUM_SAMPLES))


def aside_of(folder, records):
    return record_writer.aside(pixel_cache.pixels_path(folder, pixel_cache.fingerprint_of(records), 1))


def flip_a_bit(path, at):
    with path.open("r+b") as content:
        content.seek(at)
        byte = content.read(1)
        content.seek(at)
        content.write(bytes([byte[0] ^ 1]))


def kept(kind, records, folder):
    if kind == "ram":
        return in_memory(records, 2, image_size=SIZE)
    return on_disk(records, 2, folder, image_size=SIZE)


@pytest.mark.parametrize("kind", ["ram", "disk"])
@pytest.mark.parametrize("way", ["threads", "processes"])
def test_batches_from_the_cache_are_those_of_the_records(records, tmp_path, kind, way):
    found = kept(kind, records, tmp_path)
    with opened(records, requests(num_epochs=2)) as plain, opened(
        found, requests(num_epochs=2), kind=way
    ) as cached:
        for expected, batch in zip(plain, cached):
            np.testing.assert_array_equal(batch.arrays["data"], expected.arrays["data"])
            np.testing.assert_array_equal(batch.arrays["label"], expected.arrays["label"])
        assert next(cached, None) is None


def test_a_second_run_finds_the_file_and_a_changed_rec_makes_another(tmp_path):
    path, folder = tmp_path / "some.rec", tmp_path / "cache"
    records = write_records(path, jpegs(NUM_SAMPLES))
    on_disk(records, 1, folder)
    (file,) = folder.iterdir()
    before = file.stat()
    on_disk(records, 1, folder)
    assert [(found, found.stat().st_mtime_ns) for found in folder.iterdir()] == [(file, before.st_mtime_ns)]
    changed = write_records(path, list(jpegs(NUM_SAMPLES))[::-1])
    pixels = decoding.decode(on_disk(changed, 1, folder).read(0).payload)
    assert len(list(folder.iterdir())) == 2
    np.testing.assert_array_equal(pixels, decoding.decode(changed.read(0).payload))


def pictures():
    """Records of every kind that has a decoder of its own, large enough for all scales of a decoder."""
    small = np.random.default_rng(0).integers(0, 256, (9, 12, 3), np.uint8)
    image = Image.fromarray(cv2.resize(small, (211, 157), interpolation=cv2.INTER_CUBIC))
    exif = Image.Exif()
    exif[0x0112] = 6
    ways = [{"subsampling": way} for way in (0, 1, 2)]
    ways += [{"progressive": True}, {"restart_marker_blocks": 7}, {"restart_marker_rows": 1}, {"exif": exif}]
    for kind, mode, options in [
        *(("JPEG", "RGB", way) for way in ways),
        *[
            ("JPEG", "L", {}),
            ("JPEG", "CMYK", {}),
            ("JPEG", "RGB", {"exif": exif, "restart_marker_blocks": 2}),
        ],
        *[
            ("PNG", "RGB", {}),
            ("PNG", "LA", {}),
            ("PNG", "RGB", {"exif": exif}),
            ("TIFF", "RGB", {"exif": exif}),
        ],
    ]:
        file = io.BytesIO()
        image.convert(mode).save(file, kind, **options)
        yield file.getvalue()


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Crop each picture often."""
    payloads = list(pictures()) * 5
    assert len(payloads) == NUM_SAMPLES
    return write_records(tmp_path_factory.mktemp("large") / "large.rec", payloads)


@pytest.mark.parametrize(
    ("augment", "kind"),
    [
        ("resized_crop", "ram"),
        ("resized_crop:scale_min=0.9+flip", "disk"),
        ("pad_crop", "ram"),
        ("none", "disk"),
        # Every way to augment and both kinds of cache are above; these are the other pairs.
        pytest.param("resized_crop", "disk", marks=pytest.mark.slow),
        pytest.param("resized_crop:scale_min=0.9+flip", "ram", marks=pytest.mark.slow),
        pytest.param("pad_crop", "disk", marks=pytest.mark.slow),
        pytest.param("none", "ram", marks=pytest.mark.slow),
    ],
)
def test_what_is_decoded_at_a_smaller_scale_is_so_from_the_cache(large, tmp_path, kind, augment):
    """Crops are equal to the bit: with the full scale alone, losses were 1% off from the first step on."""
    transform = train_transform(augment, SIZE)
    with opened(large, requests(num_epochs=3), transform) as plain, opened(
        kept(kind, large, tmp_path), requests(num_epochs=3), transform
    ) as cached:
        for expected, batch in zip(plain, cached):
            np.testing.assert_array_equal(batch.arrays["data"], expected.arrays["data"])
        assert next(cached, None) is None


@pytest.mark.parametrize("resize", [16, 20, 33, 100])
def test_an_evaluation_sees_the_same_from_the_cache(large, tmp_path, resize):
    transform = eval_transform(SIZE, resize)
    with opened(large, transform=transform) as plain, opened(
        kept("ram", large, tmp_path), transform=transform
    ) as cached:
        for expected, batch in zip(plain, cached):
            np.testing.assert_array_equal(batch.arrays["data"], expected.arrays["data"])


def test_no_scale_is_kept_that_no_crop_is_decoded_at(large):
    """Pictures of 157 x 211 JPEG: at 100 pixels they are never halved."""
    for image_size, scales in ((79, [1]), (78, [1, 2]), (39, [1, 2, 4]), (19, [1, 2, 4, 8])):
        _, found = decoding.decode_all_scales(large.read(0).payload, image_size)
        assert [-(-157 // pixels.shape[0]) for pixels in found] == scales
    at_png = decoding.decode_all_scales(large.read(10).payload, 1)
    assert len(at_png[1]) == 1


def test_another_image_size_has_a_cache_of_its_own_and_that_of_an_earlier_mxtrain_goes(
    large, tmp_path, caplog
):
    old = tmp_path / f"{pixel_cache.fingerprint_of(large)}.pixels"
    old.write_bytes(b"pixels of full scale")
    with caplog.at_level("INFO"):
        on_disk(large, 1, tmp_path, image_size=100)
    assert not old.exists() and f"{old} is of an earlier mxtrain" in caplog.text
    on_disk(large, 1, tmp_path, image_size=16)
    assert sorted(path.stem.split("-")[1] for path in tmp_path.iterdir()) == ["100", "16"]


def test_damage_at_a_smaller_scale_is_noticed_where_it_is_used(large, tmp_path):
    found = kept("disk", large, tmp_path)
    offset, height, width = found._index.locate(0, 4)
    assert (height, width) == (40, 53)
    (file,) = tmp_path.iterdir()
    flip_a_bit(file, offset + 3 * width * height - 1)
    decoding.decode(found.read(0).payload)
    with pytest.raises(DataError, match="its pixels in --cache-dir are damaged"):
        decoding.decode_crop(found.read(0).payload, lambda *size: jpeg.Box(0, 0, *size), 33)


def test_bad_pictures_stay_bad(tmp_path):
    bad = with_bad_ones(tmp_path, 5)
    with pytest.raises(DataError, match=r"bad.rec: record 5 \(key 105\): Premature end"), opened(
        in_memory(bad, 1)
    ) as loader:
        list(loader)


def test_damage_in_the_file_is_noticed(records, tmp_path):
    found = kept("disk", records, tmp_path)
    (file,) = tmp_path.iterdir()
    flip_a_bit(file, 40 * 30 * 3 * 7 + 11)
    decoding.decode(found.read(6).payload)
    decoding.decode(found.read(7, verify=False).payload)
    with pytest.raises(DataError, match=r"record 7 \(key 107\): its pixels in --cache-dir are damaged"):
        decoding.decode(found.read(7).payload)


@pytest.mark.parametrize("num_bytes", [0, 10, 100_000])
def test_a_file_that_is_not_whole_is_refused(records, tmp_path, num_bytes):
    on_disk(records, 1, tmp_path)
    (file,) = tmp_path.iterdir()
    os.truncate(file, num_bytes)
    with pytest.raises(DataError, match="not a whole cache; remove it"):
        on_disk(records, 1, tmp_path)


@pytest.mark.parametrize("num_bytes", [1000, (2 << 30) + 8, (5 << 30) + 8])
def test_an_index_behind_gigabytes_of_pixels_is_read(tmp_path, num_bytes):
    """The index is found, also by Pythons that check an archive's offsets (CVE-2025-8291). The gigabytes are a hole."""
    path, rng = tmp_path / "a.pixels", np.random.default_rng(0)
    arrays = [np.zeros(3, np.float32) for _ in cache_index.PixelIndex._fields[1:]]
    places = cache_index.PixelIndex(num_bytes + rng.integers(0, 9, 3), *arrays)
    with path.open("wb") as file:
        file.seek(num_bytes)
        cache_index.append(places, file)
    for found, expected in zip(cache_index.read(path, 3), places):
        np.testing.assert_array_equal(found, expected)
    with path.open("rb") as file:
        file.seek(num_bytes)
        archive = file.read()[: -cache_index.TRAILER.size]
    end = archive.rindex(b"PK\5\6")
    _, _, _, _, size, offset, _ = struct.unpack_from("<HHHHIIH", archive, end + 4)
    assert end + 22 == len(archive)
    if 0xFFFFFFFF not in (size, offset):
        assert offset + size == end and b"PK\6\6" not in archive and b"PK\6\7" not in archive
    else:  # ZIP64: a locator right before the end says where the record before it is
        assert archive[end - 20 : end - 16] == b"PK\6\7"
        assert struct.unpack_from("<Q", archive, end - 20 + 8)[0] == end - 20 - 56
    for member in zipfile.ZipFile(io.BytesIO(archive)).infolist():
        assert archive[member.header_offset :][:4] == b"PK\3\4"


def test_a_full_disk_is_said_so_and_nothing_half_written_is_left(records, tmp_path):
    aside_of(tmp_path, records).symlink_to("/dev/full")
    with pytest.raises(UsageError, match=r"--cache-dir .*: No space left on device; give another folder"):
        on_disk(records, 1, tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_file_of_a_killed_process_is_taken_over(records, tmp_path):
    aside = aside_of(tmp_path, records)
    killed = f"""
import os
from pathlib import Path
from mxtrain.data.records.record_writer import open_alone
open_alone(Path({str(aside)!r})).write(b"half of it")
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", killed], timeout=60)
    assert aside.read_bytes() == b"half of it"
    found = on_disk(records, 1, tmp_path)
    pixels = decoding.decode(found.read(3).payload)
    np.testing.assert_array_equal(pixels, decoding.decode(records.read(3).payload))
    assert [path.suffix for path in tmp_path.iterdir()] == [".pixels"]


def test_a_process_waits_for_another_that_fills_the_same_cache(records, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(pixel_cache, "WAIT_SECONDS", 0.01)
    held = open_alone(aside_of(tmp_path, records))
    image_info = []
    waiter = threading.Thread(
        target=on_disk, args=(records, 1, tmp_path, lambda *told: image_info.append(told[0]))
    )
    with caplog.at_level("INFO"):
        waiter.start()
        waiter.join(0.3)
        assert waiter.is_alive() and "waiting for another process" in caplog.text
        first = len(records) + 1  # after all that were looked at for their size
        assert all(image_info[:first]) and image_info[first:], "it calls on while it waits"
        assert not any(image_info[first:]), "the other one does nothing"
        held.write(b"a picture")
        held.flush()
        waiter.join(0.3)
        assert waiter.is_alive() and sum(image_info) == first + 1
    held.close()
    waiter.join(30)
    assert [path.suffix for path in tmp_path.iterdir()] == [".pixels"]


@pytest.mark.parametrize("kind", ["ram", "disk"])
def test_filling_the_cache_reports_progress(records, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(pixel_cache, "AT_ONCE", 2)
    image_info = []
    data = config.Data(cache=kind, cache_dir=str(tmp_path))
    pixel_cache.with_cache(data, records, tmp_path, lambda *told: image_info.append(told))
    count = len(records)
    counted = [(True, min(done, count), count) for done in range(2, count + 2, 2)]
    assert image_info == [(True,)] * min(pixel_cache.SAMPLED, count) + counted


def test_what_does_not_fit_is_refused_before_it_is_tried(records, tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "available_memory", lambda: 40 * 30 * 3 * NUM_SAMPLES)
    with pytest.raises(
        UsageError, match=r"--cache ram: the decoded pictures of .* give --cache disk, or --cache none"
    ):
        in_memory(records, 1)


def test_a_folder_that_cannot_be_written_is_named(records, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"--cache-dir .*/file/x: Not a directory; give another folder"):
        on_disk(records, 1, tmp_path / "file" / "x")
