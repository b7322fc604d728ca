"""Torch's state_dict in a file that holds numbers alone: safetensors, or NumPy's .npz.

Owns reading and writing both. Reading is in two steps, so that a hostile file costs no memory: first names, types and
shapes, of a header of bounded size; then, one by one, the arrays that a net has a place for. What can be a pickle is
refused: loading one can run code. Needs neither torch nor mxnet.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import struct
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any, Callable, Dict, Iterator, Mapping, NamedTuple, Tuple

import numpy as np
import numpy.typing as npt

from mxtrain.core import regular_files
from mxtrain.core.durable import cannot_write, fsync
from mxtrain.core.errors import DataError
from mxtrain.data.fields import Array

Shape = Tuple[int, ...]
FloatArray = npt.NDArray[np.float32]

LARGEST_HEADER = 16 << 20  # bytes; a net of 10,000 parameters has 1 MB
MOST_ARRAYS, MOST_BYTES = 100_000, 4 << 30  # of an .npz file, unpacked
LARGEST_NPY_HEADER = 1 << 12
SAFETENSORS, NPZ = ".safetensors", ".npz"
WRITTEN = (SAFETENSORS, NPZ)
FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}  # NumPy has no bfloat16
OTHERS = {"I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1}
WRAPPERS = ("module.", "_orig_mod.", "model.")  # DataParallel's, torch.compile's, Lightning's
NUM_BATCHES = "num_batches_tracked"  # a counter of torch's that MXNet's BatchNorm has not

# Behind the first line nothing is indented: Python would refuse it.
PICKLE = """{path}: is a pickle, and loading one can run code that is in it; make a file of numbers of it, with torch:
    python -c "import torch; from safetensors.torch import save_file
s = torch.load('{path}', map_location='cpu', weights_only=True)
s = max([s, *(d for d in s.values() if isinstance(d, dict))], key=lambda d: sum(map(torch.is_tensor, d.values())))
save_file({{k: v.contiguous().clone() for k, v in s.items() if torch.is_tensor(v)}}, '{to}')\""""


class Stored(NamedTuple):
    """An array of a file that has not been read yet."""

    shape: Shape
    read: Callable[[], FloatArray]  # as float32; DataError where it is damaged or not finite


StateDict = Dict[str, Stored]


def read(path: Path) -> StateDict:
    """Return the arrays of a file of torch's by name, without torch's counters; DataError where it is no such file."""
    try:
        regular_files.require(path)
        with path.open("rb") as file:
            beginning = file.read(9)
        is_pickle = (
            beginning[:1] == b"\x80" and beginning[8:] != b"{"
        )  # safetensors begin with a length, then JSON
        if is_pickle:
            raise DataError(_pickle(path))
        is_npz = beginning.startswith(b"PK") or path.suffix == NPZ
        state = _npz(path) if is_npz else _safetensors(path)
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}") from None
    kept = {name: stored for name, stored in state.items() if name.rpartition(".")[2] != NUM_BATCHES}
    return _without_wrappers(kept)


def _without_wrappers(state: StateDict) -> StateDict:
    """Return the arrays by their names in the net itself, where a wrapper had it."""
    for prefix in WRAPPERS:
        if state and all(name.startswith(prefix) for name in state):
            return _without_wrappers({name[len(prefix) :]: stored for name, stored in state.items()})
    return state


def _pickle(path: Path) -> str:
    return PICKLE.format(path=path, to=path.with_suffix(SAFETENSORS))


def _safetensors(path: Path) -> StateDict:
    size = path.stat().st_size
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8).ljust(8, b"\0"))
        is_whole = 2 <= length <= min(LARGEST_HEADER, size - 8)
        if not is_whole and path.suffix != SAFETENSORS:
            raise DataError(
                f"{path}: holds no weights that are read here; give a .safetensors, .npz or .params file, or Caffe's "
                "solver.prototxt"
            )
        if not is_whole:
            raise DataError(
                f"{path}: not a whole safetensors file: its header would have {length} bytes, the file has {size}, and "
                f"at most {LARGEST_HEADER} are read; copy it again, or save it with safetensors.torch.save_file"
            )
        text = file.read(length)
    try:
        header = json.loads(text)
        listed = {name: each for name, each in header.items() if name != "__metadata__"}
        return {name: _stored_in(path, 8 + length, size, name, each) for name, each in listed.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise DataError(
            f"{path}: not a safetensors file: its header is no list of arrays; save it again"
        ) from None


def _stored_in(path: Path, start: int, size: int, name: str, header: Mapping[str, Any]) -> Stored:
    """Return an array of a safetensors file, whose data begins at `start`."""
    dtype, shape = str(header["dtype"]), tuple(header["shape"])
    begin, end = (start + int(offset) for offset in header["data_offsets"])
    if not all(isinstance(length, int) and length >= 0 for length in shape):
        raise ValueError(shape)
    if dtype not in FLOATS and dtype not in OTHERS:
        raise DataError(
            f"{path}: '{name}' is of type {dtype}; only plain numbers can be converted, dequantise it first"
        )
    item = np.dtype(FLOATS[dtype]).itemsize if dtype in FLOATS else OTHERS[dtype]
    if not start <= begin <= end or end - begin != math.prod(shape) * item:
        raise DataError(
            f"{path}: '{name}' of shape {shape} and type {dtype} would have {end - begin} bytes; save it again"
        )
    if end > size:
        raise DataError(f"{path}: ends before '{name}' does, {end - size} bytes are missing; copy it again")

    def load() -> FloatArray:
        if dtype not in FLOATS:
            raise DataError(f"{path}: '{name}' is of type {dtype}, not of floating point numbers")
        numbers = np.fromfile(path, FLOATS[dtype], math.prod(shape), offset=begin)
        if dtype == "BF16":  # the upper half of a float32
            numbers = (numbers.astype("<u4") << 16).view("<f4")
        return _finite(path, name, numbers.reshape(shape))

    return Stored(shape, load)


def _npz(path: Path) -> StateDict:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            names = [each.filename for each in members]
            if any(name.endswith(("data.pkl", ".pkl")) for name in names):
                raise DataError(_pickle(path))
            if len(members) > MOST_ARRAYS:
                raise DataError(
                    f"{path}: holds {len(members)} files, of which at most {MOST_ARRAYS} are read"
                )
            if sum(each.file_size for each in members) > MOST_BYTES:
                raise DataError(
                    f"{path}: unpacks to more than {MOST_BYTES >> 30} GB; nets that are known have 1"
                )
            return {each.filename[: -len(".npy")]: _member(path, archive, each) for each in members}
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, zlib.error):
        raise DataError(
            f"{path}: not a whole .npz file; copy it again, or save it with numpy.savez"
        ) from None


def _member(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Stored:
    """Return an array of an .npz file; only its header is decompressed."""
    name = member.filename[: -len(".npy")]
    if not member.filename.endswith(".npy"):
        raise DataError(f"{path}: holds {member.filename}, which is no array; save it with numpy.savez")
    with archive.open(member) as file:
        start, shape, order, dtype = _npy_header(path, name, file.read(LARGEST_NPY_HEADER))
    num_bytes = math.prod(shape) * dtype.itemsize
    if start + num_bytes != member.file_size:
        raise DataError(
            f"{path}: '{name}' of shape {shape} and type {dtype} would have {num_bytes} bytes; save it again"
        )

    def load() -> FloatArray:
        if dtype.kind != "f":
            raise DataError(f"{path}: '{name}' is of type {dtype}, not of floating point numbers")
        try:
            with zipfile.ZipFile(path) as again, again.open(member.filename) as file:
                numbers = np.frombuffer(file.read(start + num_bytes), dtype, math.prod(shape), start)
        except (zipfile.BadZipFile, EOFError, ValueError, zlib.error):
            raise DataError(f"{path}: '{name}' is damaged; copy the file again") from None
        return _finite(path, name, numbers.reshape(shape, order="F" if order else "C"))

    return Stored(shape, load)


def _npy_header(path: Path, name: str, beginning: bytes) -> tuple[int, Shape, bool, np.dtype[Any]]:
    """Return where the numbers of an array begin, its shape, whether columns come first, and its type."""
    file = io.BytesIO(beginning)
    try:
        format: Any = np.lib.format  # without types
        version = format.read_magic(file)
        reads = {(1, 0): format.read_array_header_1_0, (2, 0): format.read_array_header_2_0}
        shape, is_fortran, dtype = reads[version](file)
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{path}: '{name}' is not an array of NumPy's; save it with numpy.savez") from None
    if dtype.hasobject or dtype.fields:
        raise DataError(f"{path}: '{name}' holds objects, as a pickle, not numbers; save its numbers alone")
    return file.tell(), shape, is_fortran, dtype


def _finite(path: Path, name: str, numbers: Array) -> FloatArray:
    with np.errstate(over="ignore"):
        found = np.ascontiguousarray(numbers, np.float32).reshape(numbers.shape)
    if not np.isfinite(found).all():
        raise DataError(f"{path}: '{name}' holds numbers that are not finite; give another file")
    return found


def _write_npz(file: IO[bytes], arrays: Mapping[str, Array]) -> None:
    """Write what np.savez does, which leaves its archive open on a full disk, and a traceback at the end for it."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def write_aside(path: Path, arrays: Mapping[str, Array]) -> Iterator[Path]:
    """Write arrays as the suffix of `path` says, and yield where they are until the block has ended without an error.

    At every moment `path` is whole, or as it was before.
    """
    aside = path.with_name(f".writing-{path.name}")
    try:
        with aside.open("wb") as file:
            if path.suffix == NPZ:
                _write_npz(file, arrays)
            else:
                for piece in _encoded(arrays):
                    file.write(piece)
        yield aside
        fsync(aside)
        aside.replace(path)
        fsync(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):
            aside.unlink()
        if isinstance(error, OSError):
            raise cannot_write(path, error) from None
        raise


def _encoded(arrays: Mapping[str, Array]) -> Iterator[bytes]:
    """Yield a safetensors file in pieces."""
    dtype_names = {"float32": "F32", "int64": "I64"}
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}  # transformers and timm look for this
    offset = 0
    for name, array in arrays.items():
        end = offset + array.nbytes
        header[name] = {
            "dtype": dtype_names[array.dtype.name],
            "shape": array.shape,
            "data_offsets": [offset, end],
        }
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield struct.pack("<Q", len(text)) + text
    for array in arrays.values():
        yield np.ascontiguousarray(array).tobytes()
