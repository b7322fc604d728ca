"""The kernels that MXNet really computes with, and what is promised on other people's CPUs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mxtrain.core.system import kernels, machine
from tests.support.breadth import slow_cases
from tests.support.processes.fresh_python import answer, run

ROOT = Path(__file__).resolve().parents[3]

LOADED = """
import ctypes, os
from mxtrain.core.system import kernels
from mxtrain.runtime import mx
mx.nd.dot(mx.nd.ones((9, 9)), mx.nd.ones((9, 9))).wait_to_read()
mapped = {line.split()[-1] for line in open("/proc/self/maps") if "libopenblas.so.0" in line}
answer = [sorted(mapped), kernels._name(ctypes.CDLL(*mapped)), os.environ.get("OPENBLAS_CORETYPE")]
"""


OTHERS = [pytest.param(name, marks=pytest.mark.slow) for name in ("", "Nehalem", "SapphireRapids")]


@pytest.mark.parametrize("asked", ["Prescott", *slow_cases(None), *OTHERS])
def test_mxnet_takes_the_openblas_that_the_door_has_loaded(
    asked: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One library, with the chosen kernels; the variable is afterwards as it was before."""
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    environment = {} if asked is None else {"OPENBLAS_CORETYPE": asked}
    libraries, name, left = answer(LOADED, **environment)
    assert libraries == [str(kernels._path())] and left == asked
    # In a process of its own: where mxnet is loaded already, so is its OpenBLAS, and has chosen.
    foretold = "from mxtrain.core.system import kernels; answer = kernels.openblas().used"
    assert name == answer(foretold, **environment)
    if asked in ("Prescott", "Nehalem"):
        assert name == asked
    elif {"avx2", "fma"} <= machine.cpu_flags():
        assert name != "Prescott"


def test_no_other_openblas_of_the_process_hears_of_the_choice() -> None:
    """NumPy and its kin choose by themselves, whoever imports them first."""
    code = (
        "from mxtrain.runtime import mx; import numpy, scipy.linalg, cv2, ctypes, re\n"
        "answer = {}\n"
        "for line in open('/proc/self/maps'):\n"
        "    path = line.split()[-1]\n"
        "    if re.search('openblas', path) and 'mxnet/' not in path:\n"
        "        for name in ('openblas_get_corename', 'openblas_get_corename64_', 'scipy_openblas_get_corename'):\n"
        "            ask = getattr(ctypes.CDLL(path), name, None)\n"
        "            if ask is not None:\n"
        "                ask.restype = ctypes.c_char_p; answer[path] = ask().decode()\n"
    )
    after = answer(code)
    assert after == answer(code.replace("from mxtrain.runtime import mx; ", "")) != {}


# What oneDNN says of itself under DNNL_VERBOSE, of the names that DNNL_MAX_CPU_ISA has for it.
WORDS = {
    "SSE41": "Intel SSE4.1",
    "AVX": "Intel AVX",
    "AVX2": "Intel AVX2",
    "AVX512_CORE": "Intel AVX-512 with AVX512BW, AVX512VL, and AVX512DQ extensions",
    "AVX512_CORE_VNNI": "Intel AVX-512 with Intel DL Boost",
    "AVX512_CORE_BF16": "Intel AVX-512 with Intel DL Boost and bfloat16 support",
    "AVX512_CORE_AMX": "Intel AVX-512 with Intel DL Boost and bfloat16 support and Intel AMX with bfloat16 and 8-bit "
    "integer support",
}


# In children of one process, as oneDNN reads its variables when it computes for the first time.
ONEDNN = """
import os, sys
from mxtrain.runtime import mx
answer = {{}}
for asked in {names}:
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.dup2(writer, 1)
        os.environ["DNNL_VERBOSE"] = "1"
        if asked:
            os.environ["DNNL_MAX_CPU_ISA"] = asked
        data, weight = mx.nd.ones((1, 8, 8, 8)), mx.nd.ones((8, 8, 3, 3))
        mx.nd.Convolution(data, weight, no_bias=True, kernel=(3, 3), num_filter=8).wait_to_read()
        os._exit(0)
    os.close(writer)
    answer[asked] = open(reader).read()
    os.wait()
"""


def test_onednn_says_the_same_of_itself() -> None:
    names = ["", "ALL", "AVX", "AVX2", "AVX512_CORE", "AVX512_CORE_VNNI", "avx2"]
    # With the matrix units the door itself starts oneDNN.
    said = answer(ONEDNN.format(names=names), MXTRAIN_AMX="0")
    assert list(said) == names
    for asked in names:
        words = next(line for line in said[asked].splitlines() if "info,cpu,isa:" in line).split("isa:")[1]
        taken = kernels.onednn(environ={"DNNL_MAX_CPU_ISA": asked, "MXTRAIN_AMX": "0"})
        # Where AVX2 has a DL Boost of its own, that is in the words and in no other name.
        assert words.replace("AVX2 with Intel DL Boost", "AVX2") == WORDS[taken], asked


@pytest.mark.parametrize("asked", ["AVX512_CORE_AMX", *slow_cases("")])
def test_the_door_starts_onednn_with_the_matrix_units_where_they_are_granted(asked: str) -> None:
    """The second one kills a process whose Linux grants no tiles, unless the door takes it away."""
    code = (
        "import os\n"
        "from mxtrain.runtime import mx\n"
        "data, weight = mx.nd.ones((2, 32)), mx.nd.ones((64, 32))\n"
        "mx.nd.FullyConnected(data, weight, num_hidden=64, no_bias=True).wait_to_read()\n"
        "print('left:', os.environ.get('DNNL_MAX_CPU_ISA'))"
    )
    environment = {"DNNL_VERBOSE": "1", **({"DNNL_MAX_CPU_ISA": asked} if asked else {})}
    lines = run(code, **environment).stdout.splitlines()
    words = next(line for line in lines if "info,cpu,isa:" in line).split("isa:")[1]
    assert words.replace("AVX2 with Intel DL Boost", "AVX2") == WORDS[kernels.onednn(environ=environment)]
    assert f"left: {asked or None}" in lines


CAPS = ("AVX2", "AVX512_CORE", "AVX512_CORE_BF16", "")  # the last: what the CPU has
CORES = ("Haswell", "Prescott")
# The promises about numbers; what else is tested here is the same on every CPU.
OF_NUMBERS = [
    *(
        "test_concats",
        "test_clips",
        "test_ema",
        "test_to_device",
        "test_initializers",
        "test_losses",
        "test_losses_step",
    ),
    *("test_mapping", "test_mix_step", "test_models", "test_autocast_kernels", "test_optimizers"),
    *("test_precision", "test_pretrained"),
    *(
        "test_remat",
        "test_sparse_embedding",
        "test_state",
        "test_state_snapshot",
        "test_step",
        "test_step_scale",
    ),
    *(
        "test_distillation",
        "test_server_updater",
        "test_doctor_net",
        "test_freeze",
        "test_dry_run",
        "test_edges",
    ),
]


def files_of_numbers() -> list[Path]:
    found = {path.stem: path for path in Path(__file__).parents[1].rglob("test_*.py")}
    return [found[name] for name in OF_NUMBERS]


def test_the_promises_about_numbers_are_where_they_are_looked_for() -> None:
    assert len(set(files_of_numbers())) == len(OF_NUMBERS)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("cap", CAPS)
def test_the_promises_on_other_cpus(cap: str, core: str) -> None:
    """The engine's tests in a process with the kernels that such a CPU gets."""
    if cap and kernels.onednn(environ={"DNNL_MAX_CPU_ISA": cap}) != cap:
        pytest.skip(f"this CPU has no {cap}")
    if cap == kernels.onednn(environ={}):
        pytest.skip(f"{cap} is all that this CPU has, which is tested without a limit")
    if core == "Haswell" and not {"avx2", "fma"} <= machine.cpu_flags():
        pytest.skip("this CPU has no AVX2")
    files = list(map(str, files_of_numbers()))
    neutral = {name: value for name, value in os.environ.items() if name not in kernels.VARIABLES}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *files],
        env={**neutral, "OPENBLAS_CORETYPE": core, **({"DNNL_MAX_CPU_ISA": cap} if cap else {})},
        cwd=str(ROOT),
        capture_output=True,
        text=True,
        timeout=1700,
    )
    assert done.returncode == 0, done.stdout[-5000:]
