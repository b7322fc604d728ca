"""State_dicts in files: what is read, what is written, and what is refused before it costs memory."""

from __future__ import annotations

import io
import json
import pickle
import shlex
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from mxtrain.convert.torch import state_dict
from mxtrain.core.errors import DataError, UsageError

NUMBERS = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


def safetensors_file(path: Path, header: Any, data: bytes = b"", length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def one(kind: str, shape: list[int], num_bytes: int) -> dict[str, Any]:
    return {"a": {"dtype": kind, "shape": shape, "data_offsets": [0, num_bytes]}}


def read(path: Path) -> dict[str, Any]:
    return {name: stored.read() for name, stored in state_dict.read(path).items()}


@pytest.mark.parametrize("suffix", state_dict.WRITTEN)
def test_what_is_written_is_read_again(tmp_path: Path, suffix: str) -> None:
    arrays = {
        "a.weight": NUMBERS,
        "a.bias": NUMBERS[0],
        "one": np.float32(2).reshape(()),
        "none": NUMBERS[:0],
    }
    path = tmp_path / f"net{suffix}"
    with state_dict.write_aside(path, {**arrays, "a.num_batches_tracked": np.zeros((), np.int64)}):
        assert not path.exists()
    found = read(path)
    assert {*found} == {*arrays}
    for name, array in arrays.items():
        assert found[name].shape == array.shape and (found[name] == array).all()
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_the_reference_reads_what_is_written(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    with state_dict.write_aside(path, {"a.weight": NUMBERS, "count": np.array(3, np.int64)}):
        pass
    found = safetensors.numpy.load_file(path)
    assert (found["a.weight"] == NUMBERS).all() and found["count"] == 3


def test_an_error_in_between_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "net.npz"
    path.write_bytes(b"before")
    with pytest.raises(DataError), state_dict.write_aside(path, {"a": NUMBERS}):
        raise DataError("other outputs")
    assert path.read_bytes() == b"before" and len([*tmp_path.iterdir()]) == 1


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "none" / "net.npz"
    with pytest.raises(UsageError, match=r"net\.npz: cannot be written"), state_dict.write_aside(missing, {}):
        pass


def test_a_full_disk_is_said_in_a_line_alone(tmp_path: Path) -> None:
    program = f"""
import pathlib, resource, signal, numpy
from mxtrain.core.errors import UsageError
from mxtrain.convert.torch import state_dict
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
try:
    with state_dict.write_aside(pathlib.Path({str(tmp_path)!r}, "net.npz"), {{"a": numpy.zeros(10_000)}}):
        pass
except UsageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (
        0,
        "",
    ) and "net.npz: cannot be written (File too large)" in done.stdout
    assert not [*tmp_path.iterdir()]


def test_half_precision_becomes_float32(tmp_path: Path) -> None:
    wide = np.array([1.5, -2.25, 3e38, 1e-3], np.float32)
    upper = (wide.view(np.uint32) >> 16).astype(np.uint16)
    path = safetensors_file(tmp_path / "a.safetensors", one("BF16", [2, 2], 8), upper.tobytes())
    found = read(path)["a"]
    assert found.dtype == np.float32 and found.shape == (2, 2)
    assert np.allclose(found.ravel(), wide, rtol=2**-7)
    half = NUMBERS.astype(np.float16)
    path = safetensors_file(tmp_path / "b.safetensors", one("F16", [3, 4], 24), half.tobytes())
    assert (read(path)["a"] == half.astype(np.float32)).all()
    np.savez(tmp_path / "c.npz", a=half)
    assert (read(tmp_path / "c.npz")["a"] == half.astype(np.float32)).all()


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.module."])
def test_wrappers_names_are_left_out(tmp_path: Path, prefix: str) -> None:
    np.savez(tmp_path / "a.npz", **{f"{prefix}conv1.weight": NUMBERS, f"{prefix}fc.bias": NUMBERS})  # type: ignore
    assert {*read(tmp_path / "a.npz")} == {"conv1.weight", "fc.bias"}


REFUSED = {
    "cut short": (one("F32", [3, 4], 48), NUMBERS.tobytes()[:-1], None, "'a' does, 1 bytes are missing"),
    "header longer than the file": (b"{}", b"", 1 << 10, "not a whole safetensors file"),
    "huge header": (b"{}", b"", 1 << 62, "not a whole safetensors file"),
    "no JSON": (b"{" * 10, b"", None, "its header is no list of arrays"),
    "nested": (b"[" * 100_000, b"", None, "its header is no list of arrays|not a whole"),
    "a list": (b"[1, 2, 3]", b"", None, "its header is no list of arrays"),
    "sizes that differ": (one("F32", [3, 5], 48), NUMBERS.tobytes(), None, "would have 48 bytes"),
    "negative shape": (one("F32", [-3, -4], 48), NUMBERS.tobytes(), None, "its header is no list"),
    "other type": (one("F8_E4M3", [12], 12), b"0" * 12, None, "of type F8_E4M3"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_damaged_safetensors_are_refused(tmp_path: Path, case: str) -> None:
    header, data, length, reason = REFUSED[case]
    with pytest.raises(DataError, match=reason) as refused:
        read(safetensors_file(tmp_path / "a.safetensors", header, data, length))
    assert "a.safetensors" in str(refused.value)


def test_numbers_that_are_not_finite_are_named(tmp_path: Path) -> None:
    bad = NUMBERS.copy()
    bad[1, 2] = np.nan
    np.savez(tmp_path / "a.npz", good=NUMBERS, bad=bad, large=np.array([1e300]))
    found = state_dict.read(tmp_path / "a.npz")
    for name in ("bad", "large"):
        with pytest.raises(DataError, match=rf"a\.npz: '{name}' holds numbers that are not finite"):
            found[name].read()
    assert (found["good"].read() == NUMBERS).all()


def test_whole_numbers_are_no_weights(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", a=np.arange(3))
    with pytest.raises(DataError, match="'a' is of type int64, not of floating point"):
        read(tmp_path / "a.npz")


class Runs:
    """What a hostile pickle does."""

    def __reduce__(self) -> Any:
        return (Path.touch, (Path("ran"),))


def test_pickles_are_refused_and_never_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("old.pth").write_bytes(pickle.dumps(Runs(), protocol=2))
    with zipfile.ZipFile("new.pt", "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Runs()))
    for name in ("old.pth", "new.pt"):
        with pytest.raises(DataError, match="is a pickle, and loading one can run code") as refused:
            state_dict.read(Path(name))
        assert "weights_only=True" in str(refused.value) and "save_file" in str(refused.value)
        advice = shlex.split(str(refused.value).partition("torch:\n")[2])
        assert advice[:2] == ["python", "-c"] and compile(advice[2], "advice", "exec")
    np.savez("objects.npz", a=np.array([Runs()], object))
    with pytest.raises(DataError, match="'a' holds objects, as a pickle"):
        state_dict.read(Path("objects.npz"))
    assert not Path("ran").exists()


def test_a_bomb_costs_no_memory_until_a_net_has_a_place_for_it(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": (1 << 24,)}
    )
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("a.npy", header.getvalue() + bytes(1 << 26))
    tracemalloc.start()
    found = state_dict.read(tmp_path / "bomb.npz")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found["a"].shape == (1 << 24,) and peak < 4 << 20


def test_a_header_that_promises_more_than_there_is_is_refused(tmp_path: Path) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f4", "fortran_order": False, "shape": (1 << 40,)}
    )
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", header.getvalue() + bytes(100))
    with pytest.raises(DataError, match=r"'a' of shape \(1099511627776,\) .* would have"):
        state_dict.read(tmp_path / "a.npz")


def test_a_damaged_member_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, a=np.tile(NUMBERS, (1000, 1)))
    content = bytearray(path.read_bytes())
    content[20_000] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="'a' is damaged"):
        read(path)
    path.write_bytes(content[:-30])
    with pytest.raises(DataError, match=r"not a whole \.npz"):
        read(path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"")
    for path in (tmp_path / "a.npz", tmp_path / "none.npz", tmp_path):
        with pytest.raises(DataError, match=str(path)):
            state_dict.read(path)
