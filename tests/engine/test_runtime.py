"""The door, in fresh processes with a deadline: what mxnet finds there and what it leaves behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mxtrain.core.system import kernels, machine
from tests.support.breadth import slow_cases
from tests.support.processes.fresh_python import ROOT, answer, run

CORES = machine.usable_cores()

# Threads that one convolution adds to a process are its OpenMP team, without the engine's own thread in it.
TEAM = """
import os
os.environ["MXTRAIN_AMX"] = "0"  # for AMX the door computes something, and starts the threads that are counted here

def team(mx):
    data, weight = mx.nd.ones((8, 64, 56, 56)), mx.nd.ones((64, 64, 3, 3))
    mx.nd.waitall()
    before = len(os.listdir("/proc/self/task"))
    mx.nd.Convolution(data, weight, no_bias=True, kernel=(3, 3), num_filter=64).wait_to_read()
    return len(os.listdir("/proc/self/task")) - before + 1
"""

# What mxnet and gluoncv import and a training does not use: all of it would double the time that they take.
COSTLY = {
    *(
        "sklearn",
        "pandas",
        "scipy.sparse",
        "scipy.stats",
        "scipy.io",
        "h5py",
        "PIL",
        "requests",
        "portalocker",
    ),
    *("setuptools", "distutils", "matplotlib"),
}

# One process, as a start of mxnet costs a second: what the tests that only look at it want to know.
LOOKED_AT = (
    TEAM
    + f"COSTLY = {COSTLY!r}"
    + """
import gc, json, os, sys
from mxtrain import runtime
seen = {"loaded before": "mxnet" in sys.modules}
from mxtrain.runtime import mx
import mxnet.contrib.quantization as quantization
part = runtime.load_gluoncv_module("gluoncv.model_zoo.pruned_resnet.resnetv1b_pruned")
mx.nd.array([1, 2])
seen["costly"] = sorted(COSTLY & set(sys.modules))
seen["whole"] = sorted({"gluoncv", "gluoncv.model_zoo", "gluoncv.model_zoo.alexnet"} & set(sys.modules))
from mxtrain.runtime import gluoncv
seen["part of the whole"] = [
    gluoncv.model_zoo.pruned_resnet.resnetv1b_pruned is part, hasattr(gluoncv.model_zoo, "segbase"),
    gluoncv.model_zoo.model_zoo._models["resnet50_v1d_0.11"] is part.resnet50_v1d_11, gluoncv.nn.block.__name__]
seen["costly for the whole"] = sorted({"requests", "portalocker", "setuptools", "distutils"} & set(sys.modules))
seen["collects"] = [gc.isenabled(), gc.get_freeze_count()]
print("imported", file=sys.stderr)

seen["once"] = runtime.load() is mx is runtime.mx and runtime.load_gluoncv() is gluoncv
seen["other"], seen["version"] = hasattr(runtime, "other"), mx.__version__
seen["team"] = [team(mx), os.environ.get("OMP_NUM_THREADS")]
reader, writer = os.pipe()
mx.nd.waitall()
if os.fork() == 0:
    os.write(writer, b"%d" % team(mx)); os._exit(0)
seen["forked team"] = int(os.read(reader, 9)); os.wait()

import numpy
from distutils.version import LooseVersion
seen["removed names"] = [
    numpy.bool in (bool, numpy.bool_), numpy.int is int, numpy.float is float,
    LooseVersion("1.9.1") < LooseVersion("1.17") <= LooseVersion("1.17"),
    LooseVersion("2.0") == LooseVersion("2.0")]

import h5py, scipy.sparse
rows = scipy.sparse.csr_matrix(([2.0], ([1], [0])), shape=(2, 2))
seen["sparse"] = [mx.nd.array(rows).stype, mx.nd.array(rows).asnumpy().tolist(), mx.nd.array(rows).asscipy().nnz]
with h5py.File("kept", "w", driver="core", backing_store=False) as file:
    file["pictures"] = [[1.0, 2.0], [3.0, 4.0]]
    batch = next(iter(mx.io.NDArrayIter(file["pictures"], batch_size=1)))
    seen["h5py"] = [type(file["pictures"]) is h5py.Dataset, batch.data[0].asnumpy().tolist()]
used = float(quantization.stats.entropy([1, 1], [1, 1])), mx.test_utils.ss.__name__
import scipy.stats, sklearn.base
seen["costly when used"] = [*used, scipy.stats.norm.cdf(0), hasattr(sklearn.base, "BaseEstimator")]
print(json.dumps(seen))
"""
)


@pytest.fixture(scope="module")
def looked_at() -> subprocess.CompletedProcess[str]:
    return run(LOOKED_AT, "-W", "default")


@pytest.fixture(scope="module")
def seen(looked_at: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert looked_at.returncode == 0, looked_at.stderr
    found: dict[str, Any] = json.loads(looked_at.stdout.splitlines()[-1])
    return found


def test_an_import_without_docstrings_is_refused() -> None:
    done = run("from mxtrain import runtime; runtime.load()", "-OO")
    assert "python -OO strips the docstrings" in done.stderr.splitlines()[-1]


def test_a_mere_folder_called_mxnet_is_none(tmp_path: Path) -> None:
    """A clone of its sources, say: Python imports an empty module from there if no mxnet is installed."""
    (tmp_path / "mxnet").mkdir()
    code = (
        "import sys; sys.path[:] = [each for each in sys.path if 'site-packages' not in each]\n"
        f"sys.path.insert(0, {str(tmp_path)!r}); from mxtrain import runtime; runtime.load()"
    )
    assert (
        "UsageError: no mxnet is installed: python -m mxtrain.doctor --install cpu"
        in run(code).stderr.splitlines()[-1]
    )


def test_both_names_load_once(seen: dict[str, Any]) -> None:
    assert not seen["loaded before"] and seen["once"]
    assert seen["version"] == "1.9.1" and not seen["other"]


def test_a_plain_import_comes_in_by_the_door() -> None:
    """Without it `import mxnet` fails with any NumPy of today; nothing is loaded before somebody asks."""
    code = TEAM + (
        "import importlib.util, os, sys; from mxtrain import runtime\n"
        "known = importlib.util.find_spec('mxnet').origin\n"
        "before = sorted({'mxnet', 'gluoncv', 'numpy'} & set(sys.modules))\n"
        "import mxnet as mx, mxnet.gluon.data.vision, gluoncv; threads = team(mx)\n"
        "answer = [before, mx.__file__ == known, runtime.mx is mx, runtime.load() is mx is sys.modules['mxnet'],\n"
        "          runtime.gluoncv is gluoncv, mx.nd.ones(3).sum().asscalar().item(),\n"
        "          threads, os.environ['DMLC_ROLE'], runtime.kernels.used()['openblas']]"
    )
    expected = [[], True, True, True, True, 3.0, CORES, "server", kernels.openblas().used]
    assert answer(code, DMLC_ROLE="server") == expected


def test_an_mxnet_that_came_another_way_is_refused() -> None:
    plain = "import numpy; numpy.bool = bool; import mxnet; "
    done = run(plain + "from mxtrain.runtime import mx")
    assert done.returncode == 1 and "UsageError: mxnet was imported before mxtrain, " in done.stderr


def test_gluoncv_alone_brings_mxnet_in_by_the_door() -> None:
    done = run(
        "import mxtrain.runtime, gluoncv, sys, numpy; print(numpy.float is float, 'mxnet' in sys.modules)",
        *("-W", "default"),
    )
    assert (done.stdout, done.stderr) == ("True True\n", "")


# Python's default from 3.14 on, on any Python. A worker that does not fork finds no class of this process.
AFRESH = """
import multiprocessing
every_default = multiprocessing.context._default_context
every_default._default_context, every_default._actual_context = multiprocessing.get_context("forkserver"), None
multiprocessing.get_all_start_methods = lambda: ["forkserver", "spawn", "fork"]
"""


def test_workers_of_loaders_are_forked_where_python_starts_processes_afresh() -> None:
    """MXNet's, and those of GluonCV's own loader."""
    code = AFRESH + (
        "from mxtrain.runtime import mx, gluoncv\n"
        "from gluoncv.data.dataloader import RandomTransformDataLoader\n"
        "def square(value): return value * value\n"
        "class Numbers(mx.gluon.data.SimpleDataset): pass\n"
        "dataset = Numbers([mx.nd.array([number]) for number in range(6)])\n"
        "def numbers(loader): return [each.asscalar().item() for batch in loader for each in batch]\n"
        "answer = [numbers(mx.gluon.data.DataLoader(dataset, 2, num_workers=2, timeout=20)),\n"
        "          numbers(RandomTransformDataLoader([square], dataset, 1, 2, num_workers=2)),\n"
        "          multiprocessing.get_context().get_start_method()]"
    )
    assert answer(code) == [[0, 1, 2, 3, 4, 5], [0, 1, 4, 9, 16, 25], "forkserver"]


def test_threads_that_import_at_once_all_get_the_whole_module() -> None:
    """By a door that was loaded anew, and stands there once."""
    code = (
        "import importlib, sys, threading; from mxtrain import runtime; importlib.reload(runtime)\n"
        "start, found = threading.Barrier(6), []\n"
        "def plain():\n"
        "    start.wait(); import mxnet; found.append((mxnet, mxnet.nd.ones(2).sum().asscalar().item()))\n"
        "def asked():\n"
        "    start.wait(); mx = runtime.mx; found.append((mx, mx.nd.ones(2).sum().asscalar().item()))\n"
        "threads = [threading.Thread(target=each) for each in (plain, asked) * 3]\n"
        "[each.start() for each in threads]; [each.join() for each in threads]\n"
        "hooks = [type(each).__name__ for each in sys.meta_path].count('_ImportHook')\n"
        "answer = [len(found), len({id(mx) for mx, _ in found}), [value for _, value in found], hooks]"
    )
    assert answer(code) == [6, 1, [2.0] * 6, 1]


def test_a_plain_import_of_a_broken_mxnet_is_an_import_error_with_a_cure(tmp_path: Path) -> None:
    (tmp_path / "mxnet.py").write_text("raise OSError('half installed')")
    code = (
        "import importlib.util, mxtrain.runtime\n"
        "try:\n    import mxnet\n"
        "except ImportError as error:\n    answer = str(error)"
    )
    assert "mxtrain.doctor" in answer(code, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")


def test_what_numpy_and_python_removed_is_back(seen: dict[str, Any]) -> None:
    assert seen["removed names"] == [True] * 5


def test_the_import_is_quiet(looked_at: subprocess.CompletedProcess[str]) -> None:
    assert looked_at.stderr.startswith("imported\n"), looked_at.stderr
    assert (looked_at.returncode, len(looked_at.stdout.splitlines())) == (0, 1)


def test_the_import_leaves_alone_what_only_takes_time_and_others_find_it_as_ever(
    seen: dict[str, Any],
) -> None:
    assert seen["costly"] == [] == seen["costly for the whole"]
    assert seen["costly when used"] == [0.0, "scipy.stats", 0.5, True]
    assert seen["sparse"] == ["csr", [[0.0, 0.0], [2.0, 0.0]], 1]
    assert seen["h5py"] == [True, [[1.0, 2.0]]]
    assert seen["collects"] == [True, 0]


def test_one_module_of_gluoncv_comes_without_the_others_and_is_theirs_later(seen: dict[str, Any]) -> None:
    assert seen["whole"] == []
    assert seen["part of the whole"] == [True, True, True, "gluoncv.nn.block"]


def test_openmp_team_is_all_cores_and_one_in_forked_children(seen: dict[str, Any]) -> None:
    assert seen["team"] == [CORES, None] and seen["forked team"] == 1


@pytest.mark.parametrize(
    ("role", "arguments", "environment", "expected"),
    [
        ("scheduler", "", {"OMP_NUM_THREADS": "3"}, 3),
        ("server", "threads=1", {"OMP_NUM_THREADS": "3"}, 1),
        pytest.param("worker", f"local_workers={CORES}", {}, 1, marks=pytest.mark.slow),
        # The next test has this with a libgomp that was there before, which is harder.
        pytest.param("worker", "threads=1", {}, 1, marks=pytest.mark.slow),
    ],
)
def test_openmp_team_and_no_role_hijacks_the_import(
    role: str, arguments: str, environment: dict[str, str], expected: int
) -> None:
    """MXNet would serve instead of returning from the import, under DMLC_ROLE=server or scheduler."""
    code = TEAM + f"import os; from mxtrain import runtime; mx = runtime.load({arguments})\n"
    code += "answer = [team(mx), os.environ.get('OMP_NUM_THREADS'), os.environ['DMLC_ROLE']]"
    cluster = {"DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": "1"}
    cluster.update(DMLC_ROLE=role, DMLC_NUM_WORKER="1", DMLC_NUM_SERVER="1")
    found = answer(code, **cluster, **environment)
    assert found == [expected, environment.get("OMP_NUM_THREADS"), role]


def test_who_calls_mxnet_has_no_team_beside_the_engines() -> None:
    code = (
        TEAM
        + """
from mxtrain.runtime import mx
import numpy as np
team(mx)
before = len(os.listdir("/proc/self/task"))
mx.nd.array(np.zeros(1 << 20)).asnumpy()
data, weight = mx.nd.ones((8, 64, 56, 56)), mx.nd.ones((64, 64, 3, 3))
mx.nd.Convolution(data, weight, no_bias=True, kernel=(3, 3), num_filter=64).asnumpy()  # numbers lie in blocks
answer = len(os.listdir("/proc/self/task")) - before"""
    )
    assert answer(code) == 0


def test_who_calls_a_naive_engine_has_the_team() -> None:
    code = TEAM + "from mxtrain.runtime import mx\nanswer = team(mx)"
    assert answer(code, MXNET_ENGINE_TYPE="NaiveEngine") == CORES


def test_openmp_team_where_libgomp_was_loaded_before() -> None:
    code = TEAM + "import ctypes; ctypes.CDLL('libgomp.so.1'); from mxtrain import runtime\n"
    assert answer(code + "answer = team(runtime.load(threads=1))") == 1


BROKEN = {
    "no driver": (
        "raise OSError('libcuda.so.1: cannot open shared object file: No such file or directory')",
        {"mxnet-cu112": "1.9.1"},
        ["libcuda.so.1", "install the driver", "--install cpu"],
    ),
    "no cuDNN": (
        "raise OSError('libcudnn.so.8: cannot open shared object file: No such file or directory')",
        {"mxnet-cu112": "1.9.1"},
        ["libcudnn.so.8", "python -m mxtrain.doctor --install cu112"],
    ),
    "an old NumPy": (
        "import numpy; numpy.NaN_",
        {"numpy": "1.19.0"},
        ["numpy 1.19.0", "pip install 'numpy>=1.23.5'"],
    ),
    "anything else": ("raise ImportError('half installed')", {}, ["half installed", "mxtrain.doctor"]),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_mxnet_is_one_line_with_a_cure(case: str, tmp_path: Path) -> None:
    source, wheels, words = BROKEN[case]
    (tmp_path / "mxnet").mkdir()
    (tmp_path / "mxnet" / "__init__.py").write_text(source)
    for name, version in wheels.items():
        metadata = tmp_path / f"{name.replace('-', '_')}-{version}.dist-info" / "METADATA"
        metadata.parent.mkdir()
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    code = (
        "from mxtrain import runtime; from mxtrain.core import errors\n"
        "raise SystemExit(errors.one_line('x', runtime.load))"
    )
    done = run(code, PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    for word in words:
        assert word in done.stderr


# A mount namespace in which the system's library folder lacks what matches the pattern.
WITHOUT_LIBRARIES = r"""
set -e
folder=$(dirname "$(ldconfig -p | awk '$1 == "libgomp.so.1" {print $NF; exit}')")
folder=$(readlink -f "$folder")
mkdir "$1/all" "$1/some"
mount --bind "$folder" "$1/all"
find "$1/all" -mindepth 1 -maxdepth 1 ! -name "$2" -exec ln -s --target-directory="$1/some" {} +
mount --bind "$1/some" "$folder"
shift 2
exec "$@"
"""


@pytest.mark.system
@pytest.mark.parametrize(
    ("hidden", "stderr"),
    [
        *slow_cases(("libquadmath.so*", ""), ("libgomp.so*", "")),
        (
            "libGL.so*",
            "x: OpenCV does not load, libGL.so.1 is missing on this machine: python -m mxtrain.doctor --install cpu "
            "puts the wheel that needs none in its place; or apt-get install libgl1\n",
        ),
    ],
)
def test_libraries_that_a_slim_debian_lacks(hidden: str, stderr: str, tmp_path: Path) -> None:
    assert shutil.which("unshare")
    code = (
        "from mxtrain import runtime; from mxtrain.core import errors\n"
        "raise SystemExit(errors.one_line('x', runtime.load))"
    )
    line = ["unshare", "-m", "bash", "-c", WITHOUT_LIBRARIES, "bash", str(tmp_path), hidden]
    done = subprocess.run(
        [*line, sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stderr, done.returncode) == (stderr, 2 if stderr else 0)


@pytest.mark.system
def test_what_the_door_lends_is_not_missing(tmp_path: Path) -> None:
    code = "from mxtrain.core.system import kernels, libraries; print(libraries.missing(), kernels.openblas().used)"
    line = ["unshare", "-m", "bash", "-c", WITHOUT_LIBRARIES, "bash", str(tmp_path), "libquadmath.so*"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    line += [sys.executable, "-c", code]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=60)
    assert done.stdout == f"[] {kernels.openblas().used}\n", done.stderr


def test_an_exit_waits_for_what_is_under_way() -> None:
    """MXNet's threads would give back NumPy's memory through a Python that is no more, and abort: half the time."""
    code = """
import os
import numpy as np
from mxtrain.runtime import mx

def work():
    for _ in range(20):
        array = mx.nd.from_numpy(np.ones((1, 500, 500), np.float32), zero_copy=True)
        mx.nd.batch_dot(array, array)

answer = []
for _ in range(5):
    child = os.fork()
    if child == 0:
        work()
        raise SystemExit(4)  # ends all of Python, as in a process that was not forked
    answer.append(os.WEXITSTATUS(os.waitpid(child, 0)[1]))
"""
    assert answer(code) == [4] * 5


def test_a_second_start_takes_the_kept_functions_of_the_operators(tmp_path: Path) -> None:
    """The addresses in them are this process's; mxnet's functions look as without it."""
    code = (
        "import hashlib, inspect, sys; made = []\n"
        "def counted(frame, event, argument):\n"
        "    made.extend([1] if frame.f_code.co_name in NAMES else [])\n"
        "NAMES = '_generate_ndarray_function_code', '_generate_symbol_function_code'\n"
        "sys.setprofile(counted)\n"
        "from mxtrain.runtime import mx\n"
        "sys.setprofile(None)\n"
        "spaces = [mx.nd, mx.sym, mx.nd.contrib, mx.sym.contrib, mx.nd._internal, mx.nd.numpy._internal]\n"
        "every = [(k, f.__doc__, f.__module__, f.__qualname__, str(inspect.signature(f)))\n"
        "         for s in spaces for k, f in sorted(vars(s).items()) if inspect.isfunction(f)]\n"
        "total = mx.nd.broadcast_add(mx.nd.ones(3), mx.nd.ones(3)).sum().asscalar().item()\n"
        "symbol = mx.sym.FullyConnected(mx.sym.var('data'), num_hidden=2, name='fc').list_arguments()\n"
        "array = mx.np.tanh(mx.np.zeros(2)).sum().item()\n"
        "look = [len(every), hashlib.sha256(repr(every).encode()).hexdigest(), total, symbol, array]\n"
        "answer = [len(made), look]"
    )
    first, second = (answer(code, XDG_CACHE_HOME=str(tmp_path)) for _ in range(2))
    assert first[0] > 2000 and second[0] == 0
    assert first[1] == second[1]
    assert first[1][0] > 500 and first[1][2:] == [6.0, ["data", "fc_weight", "fc_bias"], 0.0]
    assert len(list((tmp_path / "mxtrain").iterdir())) == 1


@pytest.mark.parametrize(("asked", "workspaces"), [({}, 1), *slow_cases(({"MXNET_CPU_TEMP_COPY": "4"}, 4))])
def test_operators_share_a_workspace_unless_asked_otherwise(asked: dict[str, str], workspaces: int) -> None:
    """What is in memory after eight searches more than after the first is workspaces other than that one's."""
    kept, workspace = answer(
        """
import os
from pathlib import Path
from mxtrain.runtime import mx

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

numbers = mx.nd.random.uniform(shape=(1 << 22,))
mx.nd.waitall()
found = [resident()]
for _ in range(8):
    mx.nd.topk(numbers, k=5, axis=0).wait_to_read()
    found.append(resident())
answer = found[-1] - found[1], found[1] - found[0]
""",
        **asked,
    )
    assert workspace > 1 << 24
    assert workspaces - 1.5 < kept / workspace < workspaces - 0.5
