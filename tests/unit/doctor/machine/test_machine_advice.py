"""Doctor's advice from the facts, and a table of them that fits."""

from __future__ import annotations

import copy
import socket
from typing import Any

import pytest

from mxtrain.doctor.machine import fact_table, machine_advice
from mxtrain.doctor.machine import facts as machine_facts

GFLOPS = {
    **{"dot float32": 100.0, "dense float32": 200.0, "convolution float32": 210.0},
    **{"dense bfloat16": 400.0, "convolution bfloat16": 390.0},
}
FACTS: dict[str, Any] = {
    "versions": {"mxtrain": "0.1.0", "python": "3.11.7", "mxnet": "1.9.1"},
    "mxnet": {"error": None, "import_seconds": 1.5, "features": ["MKLDNN", "OPENMP"], "num_gpus": 0},
    "cpu": {"name": "A CPU", "instructions": ["avx2", "avx512_bf16"]},
    "kernels": {
        "openblas": "Haswell",
        "onednn": "AVX512_CORE_BF16",
        "openblas_by_itself": "Haswell",
        "bf16_problem": None,
        "no_amx": None,
        "variables": {},
    },
    "threads": {
        "logical_cores": 64,
        "usable_cores": 6,
        "cgroup_cores": 6.5,
        "OMP_NUM_THREADS": None,
        "MXNET_OMP_MAX_THREADS": None,
        "OMP_WAIT_POLICY": None,
        "load": 3.5,
    },
    "gpu": {"devices": [], "reason": "no NVIDIA driver"},
    "gpu_links": None,
    "shared_memory": {"total_bytes": 8 << 30, "free_bytes": 8 << 30},
    "native_decoder": True,
    "c_compiler": False,
    "python_headers": True,
    "ports": {"loopback": True, "free_port": 40000, "error": None, "variables": {}},
    "wheel_conflicts": [],
    "missing_libraries": [],
    "trainable": True,
    "speed": {"here": {"error": None, "gflops": GFLOPS}, "by_itself": None},
}


def advice(**changes: Any) -> str:
    facts = copy.deepcopy(FACTS)
    for name, change in changes.items():
        facts[name] = {**facts[name], **change} if isinstance(change, dict) else change
    return "\n".join(machine_advice.recommendations(facts))


def test_a_healthy_machine_gets_flags_only() -> None:
    (flags,) = machine_advice.recommendations(FACTS)
    assert "--devices cpu" in flags
    assert "6 OpenMP threads" in flags
    assert "--amp auto" in flags
    assert "--amp" not in advice(cpu={"instructions": ["avx2"]})
    assert "--amp" not in advice(kernels={"bf16_problem": "needs AVX-512"})


def test_gpus_that_can_train_are_recommended() -> None:
    gpus = [
        {"index": index, "name": name, "capability": capability, "memory_bytes": 1 << 34}
        for index, (name, capability) in enumerate([("T4", [7, 5]), ("H100", [9, 0]), ("A10", [8, 6])])
    ]
    assert "--devices gpu:0,2" in advice(mxnet={"num_gpus": 3}, gpu={"devices": gpus, "reason": ""})


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"shared_memory": {"free_bytes": 64 << 20}}, "--shm-size=2g"),
        ({"ports": {"variables": {"PORT": "80"}}}, "PORT is set: ps-lite binds this port"),
        ({"ports": {"loopback": False}}, "no loopback port"),
        ({"threads": {"OMP_NUM_THREADS": "1"}}, "OMP_NUM_THREADS=1 is set"),
        (
            {"threads": {"load": 80.2}},
            "a load of 80 on 64 cores: beside other programs OMP_WAIT_POLICY",
        ),
        ({"kernels": {"variables": {"DNNL_MAX_CPU_ISA": "AVX2"}}}, "DNNL_MAX_CPU_ISA=AVX2 is set and wins"),
        ({"wheel_conflicts": ["a and b overwrite each other"]}, "a and b overwrite each other"),
        ({"missing_libraries": [{"library": "libGL.so.1", "package": "libgl1"}]}, "apt-get install libgl1"),
        ({"native_decoder": False}, "apt-get install gcc, install mxtrain again"),
        (
            {"native_decoder": False, "python_headers": False},
            "apt-get install gcc python3-dev, install mxtrain again",
        ),
        (
            {"native_decoder": False, "c_compiler": True, "python_headers": False},
            ": apt-get install python3-dev, install mxtrain again",
        ),
        ({"native_decoder": False, "c_compiler": True}, "C compiler builds: install mxtrain again"),
    ],
)
def test_each_finding_has_its_advice(changes: dict[str, Any], sentence: str) -> None:
    assert sentence in advice(**changes)


@pytest.mark.parametrize("changes", [{"load": 64.0}, {"OMP_WAIT_POLICY": "active"}, {"usable_cores": 1}])
def test_threads_that_meet_nobody_or_were_told_how_to_wait_have_no_advice(changes: dict[str, Any]) -> None:
    assert "OMP_WAIT_POLICY" not in advice(threads={"load": 80.2, **changes})


def speed(by_itself: dict[str, float] | None = None, **changes: float) -> dict[str, Any]:
    here = {**GFLOPS, **{name.replace("_", " "): value for name, value in changes.items()}}
    without = None if by_itself is None else {"error": None, "gflops": {**GFLOPS, **by_itself}}
    return {"here": {"error": None, "gflops": here}, "by_itself": without}


def test_bfloat16_that_is_slower_is_advised_against() -> None:
    slow = {"dense_bfloat16": 190.0, "convolution_bfloat16": 187.0}
    said = advice(speed=speed(**slow))
    assert "bfloat16 is slower than float32 here (dense 190 and 200, convolution 187 and 210 GFLOP/s)" in said
    assert "--amp bf16 speeds" not in said
    assert "slower" not in advice(speed=speed(dense_bfloat16=190.0)), "convolutions gain"


def test_a_choice_of_kernels_that_does_not_pay_is_told_with_the_way_back() -> None:
    assert "GFLOP/s" not in advice(speed=speed({"dot float32": 110.0}))
    (said,) = (line for line in advice(speed=speed({"dot float32": 150.0})).splitlines() if "GFLOP/s" in line)
    assert "reaches 100 GFLOP/s" in said and "150 without" in said and "OPENBLAS_CORETYPE=Haswell" in said
    assert "MXTRAIN_AMX=0" in advice(speed=speed({"dense bfloat16": 900.0}))


def test_kernels_that_crash_are_a_finding() -> None:
    failed = {"error": "the process to measure its kernels ended with exit code -4: no message"}
    facts = {**FACTS, "speed": {"here": failed, "by_itself": None}}
    assert failed["error"] in machine_advice.recommendations(facts)
    assert "exit code -4" in " ".join(fact_table.of_facts({**facts, "recommendations": []}).split())


def test_a_compiler_is_no_help_to_a_machine_that_cannot_run_what_it_makes() -> None:
    assert "compiler" not in advice(native_decoder=False, cpu={"instructions": []})


def test_without_mxnet_the_reason_comes_first_and_no_flags_follow() -> None:
    lines = advice(mxnet={"error": "no mxnet is installed"}, trainable=False, speed=None).splitlines()
    assert lines == ["no mxnet is installed"]


def test_table_is_aligned_and_fits() -> None:
    facts = {**FACTS, "wheel_conflicts": ["two wheels fight over one folder, and so " * 6, "a second one"]}
    lines = fact_table.of_facts(
        {**facts, "recommendations": machine_advice.recommendations(facts)}
    ).splitlines()
    assert max(map(len, lines)) <= 100
    starts = {line[: fact_table.NAME_COLUMNS].strip() for line in lines} - {""}
    assert starts >= {
        "versions",
        "mxnet",
        "cpu",
        "gpu",
        "/dev/shm",
        "ports",
        "wheels",
        "recommended",
        "verdict",
    }
    assert all(
        line[fact_table.NAME_COLUMNS - 1] == " " and line[fact_table.NAME_COLUMNS] != " " for line in lines
    )


def test_ports_tells_a_port_that_is_free_and_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in machine_advice.CLUSTER_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DMLC_ROLE", "server")
    found = machine_facts.ports()
    assert found["variables"] == {"DMLC_ROLE": "server"}
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", found["free_port"]))
