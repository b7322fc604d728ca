"""A whole pack puts restart markers into JPEGs by default, and leaves them out where it is told to or has no means."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from mxtrain import native
from mxtrain.core.errors import UsageError
from mxtrain.data.decode import decoding, restart
from mxtrain.data.packing import resume
from mxtrain.data.packing.options import Options
from mxtrain.data.packing.pack import pack
from mxtrain.data.packing.pictures.restart_intervals import JPEGTRAN, NATIVE
from mxtrain.data.packing.plan import plan_outputs
from mxtrain.data.records.record_file import open_records
from mxtrain.data.sources.opening import open_source
from tests.support.data.encoded_jpegs import encoded, picture

needs_native = pytest.mark.skipif(
    native.rewrite_jpeg is None, reason="mxtrain was installed without a C compiler"
)


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "images" / "a").mkdir(parents=True)
    for number in range(20):
        image = picture(rng, 64, 128, 20)
        payload = encoded(image, 90, "420", progressive=number < 3)
        (tmp_path / "images" / "a" / f"{number:02}.jpg").write_bytes(payload)
    (tmp_path / "images" / "a" / "20.png").write_bytes(cv2.imencode(".png", image)[1].tobytes())
    return tmp_path / "images"


def packed(folder, name, **options):
    """Return the payloads of a pack of the folder, in its order."""
    rec = folder.parent / name / "data.rec"
    print(*pack(folder, rec.parent, Options(shuffle=False, **options)), sep="\n")
    return [bytes(record.payload) for record in map(open_records(rec).read, range(21))]


@needs_native
def test_by_default_jpegs_get_them_and_no_pixel_changes(folder, capsys):
    sources = [path.read_bytes() for path in sorted(folder.glob("a/*"))]
    by_default = packed(folder, "default")
    assert by_default == packed(folder, "wanted", restart_intervals=True, num_workers=1)
    assert by_default == packed(folder, "structure", verify="structure", num_workers=3)
    assert "left" not in capsys.readouterr().out
    assert by_default[20] == sources[20]
    for payload, source in zip(by_default, sources):
        np.testing.assert_array_equal(decoding.decode(payload), decoding.decode(source))
    assert all(restart.parse_header(payload).interval == 4 for payload in by_default[:20])


def test_without_them_jpegs_stay_as_they_are_and_progressive_ones_are_counted(folder, capsys):
    sources = [path.read_bytes() for path in sorted(folder.glob("a/*"))]
    assert packed(folder, "plain", restart_intervals=False) == sources
    assert "  3 left progressive" in capsys.readouterr().out


def test_with_no_means_they_are_left_out_or_refused(folder, caplog, monkeypatch, tmp_path):
    monkeypatch.setattr(native, "rewrite_jpeg", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    sources = [path.read_bytes() for path in sorted(folder.glob("a/*"))]
    assert packed(folder, "plain") == sources
    assert caplog.text.count("without restart intervals") == 1
    caplog.clear()
    packed(folder, "re-encoded", quality=90)
    assert "without restart intervals" not in caplog.text
    with pytest.raises(UsageError, match="needs mxtrain installed where there is a C compiler"):
        packed(folder, "refused", restart_intervals=True)


def test_a_run_is_not_resumed_in_another_way(folder):
    found = open_source(folder)

    def described(way, **options):
        splits = plan_outputs(found.items, folder.parent / "out", Options(**options))
        return resume.description(splits, found, Options(**options), way, folder.parent)

    assert described(NATIVE) == described(NATIVE, restart_intervals=True)
    assert described(NATIVE) != described(JPEGTRAN)


@pytest.mark.parametrize(
    ("given", "flag"), [(True, "--restart-intervals"), (False, "--no-restart-intervals")]
)
def test_of_text_they_are_refused(given, flag, tmp_path):
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("once upon a time")
    with pytest.raises(UsageError, match=f"^{flag} is for images"):
        pack(tmp_path / "texts", tmp_path / "out", Options(restart_intervals=given))
