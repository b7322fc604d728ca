"""The kernels that MXNet's two libraries use on this CPU: OpenBLAS (products of matrices, norms) and oneDNN.

Owns asking both libraries, choosing for OpenBLAS where it does not know the CPU, asking for AMX's matrix units, and
whether bfloat16 has kernels.
Needs no mxnet, so that a run can be checked and described before it is loaded.
"""

from __future__ import annotations

import _ctypes
import contextlib
import ctypes
import functools
import importlib.util
import logging
import os
from pathlib import Path
from typing import Iterator, Mapping, NamedTuple

from mxtrain.core.system import libraries, machine, out_of_memory

logger = logging.getLogger(__name__)

CORETYPE, MAX_CPU_ISA = VARIABLES = "OPENBLAS_CORETYPE", "DNNL_MAX_CPU_ISA"
AMX_SWITCH = "MXTRAIN_AMX"  # 0 turns the matrix units off
UNKNOWN = "unknown"

# What OpenBLAS takes on an Intel or AMD that is younger than itself: kernels of 2004 and 2007. It goes by the model,
# and the one in MXNet's wheel, 0.3.13, does not know Ice Lake servers, Sapphire Rapids, Alder Lake and Zen 5.
FALLBACKS = ("Prescott", "Barcelona")
# What it takes on CPUs that it knows, with these instructions; it was built without those for AVX-512.
BY_INSTRUCTIONS = (("Haswell", {"avx2", "fma"}), ("Sandybridge", {"avx"}))

# oneDNN's, each with those before it: the name that DNNL_MAX_CPU_ISA gives them, and the instructions they add.
AVX512, VNNI, AMX = "AVX512_CORE", "AVX512_CORE_VNNI", "AVX512_CORE_AMX"
ONEDNN = (
    ("SSE41", {"sse4_1"}),
    ("AVX", {"avx"}),
    ("AVX2", {"avx2"}),
    (AVX512, {"avx512f", "avx512bw", "avx512dq", "avx512vl"}),
    (VNNI, {"avx512_vnni"}),
    ("AVX512_CORE_BF16", {"avx512_bf16"}),
    (AMX, {"amx_tile", "amx_int8", "amx_bf16"}),
)
ONEDNN_NAMES = [name for name, _ in ONEDNN]
MOST_UNASKED = "AVX512_CORE_BF16"  # oneDNN 2.4.4 uses tiles only where the variable names them
# Linux 5.16 and newer: arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA), by its number on x86-64.
_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
OF_OTHER_LINES = {"AVX2_VNNI": "AVX2", "AVX512_MIC": "AVX2", "AVX512_MIC_4OPS": "AVX2"}


class OpenBlas(NamedTuple):
    """The kernels that OpenBLAS uses and those that it would choose, by its own names."""

    used: str
    own: str


def used() -> dict[str, str]:
    """Return the kernels of both libraries, by their own names."""
    return {"openblas": openblas().used, "onednn": onednn()}


def in_words(used_kernels: Mapping[str, str]) -> str:
    """Return what `used()` of some machine has found, and mxtrain's own kernels if there are some, for a message."""
    own = f", mxtrain {used_kernels['mxtrain']}" if "mxtrain" in used_kernels else ""
    return (
        f"OpenBLAS {used_kernels.get('openblas', UNKNOWN)}, oneDNN {used_kernels.get('onednn', UNKNOWN)}{own}"
    )


def openblas() -> OpenBlas:
    """Ask the library in MXNet's wheel, which is loaded for the question and unloaded again."""
    out_of_memory.warn_of_limits()
    try:
        libraries.lend()
        library = ctypes.CDLL(str(_path()))
    except OSError as error:
        logger.debug("MXNet's OpenBLAS does not load: %s", error)
        return OpenBlas(UNKNOWN, UNKNOWN)
    own = _name(library)
    _ctypes.dlclose(library._handle)
    return OpenBlas(better(own, os.environ.get(CORETYPE, ""), machine.cpu_flags()), own)


def better(own: str, requested: str, flags: set[str]) -> str:
    """Return the kernels to use where OpenBLAS chooses `own`: others only if nobody `requested` that fallback.

    OPENBLAS_CORETYPE may be meant for another, younger OpenBLAS in this process; MXNet's then falls back too.
    """
    if own not in FALLBACKS or requested.lower() == own.lower():
        return own
    return next((name for name, needed in BY_INSTRUCTIONS if needed <= flags), own)


def load_openblas() -> None:
    """Load MXNet's OpenBLAS with better kernels where its own choice is a fallback; mxnet then uses the loaded one.

    The variable is set while this library loads, and no longer: those of NumPy, SciPy and OpenCV read it too.
    """
    wanted, own = openblas()
    if wanted != own:
        kept = os.environ.get(CORETYPE)
        os.environ[CORETYPE] = wanted
        try:
            wanted = _name(ctypes.CDLL(str(_path())))
        finally:
            del os.environ[CORETYPE]
            if kept is not None:
                os.environ[CORETYPE] = kept
    logger.debug("OpenBLAS computes with its kernels for %s, by itself it takes %s", wanted, own)


def onednn(flags: set[str] | None = None, environ: Mapping[str, str] = os.environ) -> str:
    """Return the best of oneDNN's kernels that the CPU, Linux and the environment allow, as the door starts it."""
    flags = machine.cpu_flags() if flags is None else flags
    found = UNKNOWN
    for name, needed in ONEDNN[: ONEDNN_NAMES.index(_cap(environ)) + 1]:
        if not needed <= flags or (name == AMX and not tiles_are_granted()):
            break
        found = name
    return found


def _cap(environ: Mapping[str, str]) -> str:
    """Return the most that the environment allows oneDNN. A DNNL_MAX_CPU_ISA that it does not know caps nothing."""
    limit = environ.get(MAX_CPU_ISA, "")
    if limit:
        return OF_OTHER_LINES.get(limit, limit if limit in ONEDNN_NAMES else MOST_UNASKED)
    return MOST_UNASKED if environ.get(AMX_SWITCH) == "0" else AMX


@functools.lru_cache(maxsize=None)
def tiles_are_granted() -> bool:
    """Ask Linux for AMX's tiles, for this process and those it forks; False where they are not to be had.

    A process that uses them without asking dies of SIGILL. A program that is executed has to ask again.
    """
    try:
        ask = ctypes.CDLL(None, use_errno=True).syscall
    except (AttributeError, OSError):
        return False
    granted: int = ask(*(ctypes.c_long(number) for number in (_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA)))
    if granted != 0:
        logger.debug("Linux grants no AMX tiles: %s", os.strerror(ctypes.get_errno()))
    return granted == 0


@contextlib.contextmanager
def onednn_variable() -> Iterator[bool]:
    """A block in which oneDNN's variable says what `onednn()` does; yields whether oneDNN has to read it there.

    A program that this process starts must not inherit it: without asking Linux for the tiles it would die.
    """
    before, wanted = os.environ.get(MAX_CPU_ISA), onednn()
    if AMX not in (before, wanted):
        yield False
        return
    os.environ[MAX_CPU_ISA] = wanted
    try:
        yield True
    finally:
        del os.environ[MAX_CPU_ISA]
        if before is not None:
            os.environ[MAX_CPU_ISA] = before


def bf16_problem(flags: set[str] | None = None, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return why bfloat16 has no kernels here and what to do, to follow a flag's name; None where it has."""
    flags = machine.cpu_flags() if flags is None else flags
    if _has_avx512(onednn(flags, environ)):
        return None
    if _has_avx512(onednn(flags, {})):
        cap = f"{MAX_CPU_ISA}={environ[MAX_CPU_ISA]}"
        return f"needs AVX-512, which {cap} keeps MXNet from using: unset that, or leave --amp out"
    return "needs AVX-512 (avx512f, avx512bw, avx512dq and avx512vl), which this CPU lacks: leave --amp out"


def int8_problem(flags: set[str] | None = None, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return that the kernels in use have no instructions for int8, and what that means; None where they have."""
    name = onednn(flags, environ)
    if _reaches(name, VNNI):
        return None
    return (
        f"oneDNN's kernels here ({name}) have no instructions for int8 (avx512_vnni): it gains less speed than where "
        "there are some, and its answers differ slightly from those"
    )


def amx_problem(flags: set[str] | None = None, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return why the matrix units that this CPU has are not used; None where they are, or where it has none."""
    flags = machine.cpu_flags() if flags is None else flags
    if not set().union(*(needed for _, needed in ONEDNN)) <= flags or onednn(flags, environ) == AMX:
        return None
    if environ.get(MAX_CPU_ISA):
        return f"{MAX_CPU_ISA}={environ[MAX_CPU_ISA]} keeps it from AMX"
    if environ.get(AMX_SWITCH) == "0":
        return f"{AMX_SWITCH}=0 keeps it from AMX"
    return "Linux grants no AMX tiles (5.16 or newer does)"


def multiplies_bf16(name: str) -> bool:
    """Return whether these kernels of oneDNN's have instructions for bfloat16; those before work through float32."""
    return _reaches(name, MOST_UNASKED)


def _has_avx512(name: str) -> bool:
    return _reaches(name, AVX512)


def _reaches(name: str, least: str) -> bool:
    return name != UNKNOWN and ONEDNN_NAMES.index(name) >= ONEDNN_NAMES.index(least)


def _path() -> Path:
    """Return the path of the library in MXNet's wheel; another kind of wheel may lack it."""
    spec = importlib.util.find_spec("mxnet")
    return Path(spec.origin if spec and spec.origin else "/").parent / "libopenblas.so.0"


def _name(library: ctypes.CDLL) -> str:
    library.openblas_get_corename.restype = ctypes.c_char_p
    name: bytes = library.openblas_get_corename()
    return name.decode()
