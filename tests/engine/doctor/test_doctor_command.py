"""doctor as a command: on this machine, and with an mxnet that fails, crashes or hangs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mxtrain.core.system import kernels, machine
from mxtrain.doctor.machine import fact_table, kernel_speed, mxnet_check

ROOT = Path(__file__).resolve().parents[3]


def run(*arguments: str, before: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mxtrain.doctor", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [before, str(ROOT)])), **environment},
        capture_output=True,
        text=True,
        timeout=100,
    )


def break_mxnet(folder: Path, source: str) -> str:
    (folder / "mxnet").mkdir()
    (folder / "mxnet" / "__init__.py").write_text(source)
    return str(folder)


@pytest.mark.slow  # the next test prints its facts as this table
def test_table_of_a_machine_that_trains() -> None:
    done = run()
    assert (done.returncode, done.stderr) == (0, "")
    assert max(map(len, done.stdout.splitlines())) <= 100
    assert "DIST_KVSTORE" in done.stdout
    assert done.stdout.splitlines()[-1].split() == ["verdict", "trainable"]
    (speed,) = (line for line in done.stdout.splitlines() if line.startswith("speed "))
    assert re.search(r"GFLOP/s: dot float32 \d+, dense float32 \d+", speed)


def test_json_holds_the_same_facts_and_they_tell_the_kernels_and_what_they_cost() -> None:
    done = run("--json", DNNL_MAX_CPU_ISA="AVX2", OPENBLAS_CORETYPE="Nehalem")
    facts = json.loads(done.stdout)
    assert done.returncode == 0
    assert facts["trainable"] is True
    assert "MKLDNN" in facts["mxnet"]["features"]
    assert facts["threads"]["usable_cores"] == machine.usable_cores()
    assert facts["recommendations"]
    reached = facts["speed"]["here"]["gflops"]
    assert set(reached) == {"dot float32", "dense float32", "convolution float32"}, "AVX2 has no bfloat16"
    assert all(value > 0 for value in reached.values()) and facts["speed"]["by_itself"] is None

    said = " ".join(fact_table.of_facts(facts).split())
    assert "OpenBLAS Nehalem, oneDNN AVX2;" in said and "; --amp bf16 needs AVX-512" in said
    assert "OPENBLAS_CORETYPE=Nehalem is set" in said and "--amp auto" not in said


def test_what_mxtrain_chooses_is_measured_against_what_it_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a CPU that OpenBLAS does not know, and that has AMX."""
    monkeypatch.setattr(kernels, "openblas", lambda: kernels.OpenBlas(used="Haswell", own="Prescott"))
    monkeypatch.setattr(kernels, "onednn", lambda: kernels.AMX)
    monkeypatch.setattr(mxnet_check, "in_a_child", lambda call, what, variables=(): {"had": dict(variables)})
    without = {"OPENBLAS_CORETYPE": "Prescott", "MXTRAIN_AMX": "0"}
    assert kernel_speed.examine() == {"here": {"had": {}}, "by_itself": {"had": without}}


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("raise ImportError('half installed')", "half installed"),
        ("import os; os.abort()", "exit code -6"),
        ("raise RuntimeError('odd')", "RuntimeError: odd"),
    ],
)
def test_a_broken_mxnet_is_a_finding(source: str, reason: str, tmp_path: Path) -> None:
    done = run(before=break_mxnet(tmp_path, source))
    assert done.returncode == 2
    assert done.stdout.splitlines()[-1].split() == ["verdict", "not", "trainable"]
    assert len(done.stderr.splitlines()) == 1
    assert "cannot train here" in done.stderr
    assert reason in done.stderr


def test_a_hanging_mxnet_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "PYTHONPATH", f"{break_mxnet(tmp_path, 'import time; time.sleep(99)')}{os.pathsep}{ROOT}"
    )
    assert mxnet_check.check(seconds=3) == {"error": "mxnet did not import and train one step within 3 s"}


# As on a machine where others have the CPU: a little of it now and then.
SLOWLY = """
import time
until = time.monotonic() + {seconds}
while time.monotonic() < until:
    time.sleep(0.3)
    sum(range(1_000_000))
raise ImportError("at last")
"""


@pytest.mark.slow  # it waits for most of its time
def test_a_slow_mxnet_is_waited_for_while_it_gets_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{break_mxnet(tmp_path, SLOWLY.format(seconds=6))}{os.pathsep}{ROOT}")
    assert "at last" in str(mxnet_check.check(seconds=2)["error"])


@pytest.mark.slow  # test_a_hanging_mxnet_is_a_finding is the same wait
def test_a_slow_mxnet_is_not_waited_for_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{break_mxnet(tmp_path, SLOWLY.format(seconds=99))}{os.pathsep}{ROOT}")
    error = str(mxnet_check.check(seconds=1)["error"])
    assert "within 8 s, on a machine with a load of" in error and "try again when it is less busy" in error
