"""The choice of kernels, by the CPU's instructions and by what the environment asks for."""

from __future__ import annotations

import os

import pytest

from mxtrain.core.system import kernels, machine

SSE = {"sse4_1"}
AVX2 = {*SSE, "avx", "avx2", "fma"}
SKYLAKE_X = {*AVX2, "avx512f", "avx512bw", "avx512dq", "avx512vl"}
SAPPHIRE_RAPIDS = {*SKYLAKE_X, "avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16"}
XEON_PHI = {*AVX2, "avx512f", "avx512cd", "avx512er", "avx512pf"}


@pytest.mark.parametrize(
    ("own", "asked", "flags", "taken"),
    [
        ("Prescott", "", SAPPHIRE_RAPIDS, "Haswell"),
        ("Prescott", "", AVX2, "Haswell"),
        ("Barcelona", "", SKYLAKE_X, "Haswell"),
        ("Prescott", "", {*SSE, "avx"}, "Sandybridge"),
        ("Prescott", "", SSE, "Prescott"),
        ("Prescott", "prescott", SAPPHIRE_RAPIDS, "Prescott"),
        ("Prescott", "SapphireRapids", SAPPHIRE_RAPIDS, "Haswell"),
        ("Haswell", "SkylakeX", SAPPHIRE_RAPIDS, "Haswell"),
        ("Zen", "", SKYLAKE_X, "Zen"),
        ("Nehalem", "", SSE, "Nehalem"),
        ("armv8", "", set(), "armv8"),
    ],
)
def test_only_a_fallback_is_bettered(own: str, asked: str, flags: set[str], taken: str) -> None:
    assert kernels.better(own, asked, flags) == taken


@pytest.mark.parametrize(
    ("flags", "asked", "taken"),
    [
        (set(), "", "unknown"),
        (SSE, "", "SSE41"),
        (AVX2, "", "AVX2"),
        (XEON_PHI, "", "AVX2"),
        (SKYLAKE_X, "", "AVX512_CORE"),
        (SAPPHIRE_RAPIDS, "", "AVX512_CORE_AMX"),
        (SAPPHIRE_RAPIDS, "ALL", "AVX512_CORE_BF16"),
        (SAPPHIRE_RAPIDS, "AVX512_CORE_AMX", "AVX512_CORE_AMX"),
        (SAPPHIRE_RAPIDS, "AVX512_CORE", "AVX512_CORE"),
        (SAPPHIRE_RAPIDS, "AVX512_MIC", "AVX2"),
        (SAPPHIRE_RAPIDS, "AVX2_VNNI", "AVX2"),
        (SAPPHIRE_RAPIDS, "AVX", "AVX"),
        (SAPPHIRE_RAPIDS, "avx2", "AVX512_CORE_BF16"),
        (AVX2, "AVX512_CORE", "AVX2"),
    ],
)
def test_onednn_takes_the_best_that_is_there_and_allowed(
    flags: set[str], asked: str, taken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "tiles_are_granted", lambda: True)
    assert kernels.onednn(flags, {"DNNL_MAX_CPU_ISA": asked}) == taken
    problem = kernels.int8_problem(flags, {"DNNL_MAX_CPU_ISA": asked})
    assert (problem is None) == (taken in ("AVX512_CORE_VNNI", "AVX512_CORE_BF16", "AVX512_CORE_AMX"))
    assert problem is None or f"({taken})" in problem
    problem = kernels.bf16_problem(flags, {"DNNL_MAX_CPU_ISA": asked})
    assert (problem is None) == taken.startswith("AVX512_CORE")
    if problem:
        assert "AVX-512" in problem and "leave --amp out" in problem
        assert ("DNNL_MAX_CPU_ISA=" in problem) == (flags >= SKYLAKE_X)


@pytest.mark.parametrize(
    ("environ", "granted", "taken", "said"),
    [
        ({}, True, "AVX512_CORE_AMX", None),
        ({"MXTRAIN_AMX": "1"}, True, "AVX512_CORE_AMX", None),
        ({"MXTRAIN_AMX": "0"}, True, "AVX512_CORE_BF16", "MXTRAIN_AMX=0 keeps"),
        ({}, False, "AVX512_CORE_BF16", "Linux grants no"),
        (
            {"DNNL_MAX_CPU_ISA": "AVX512_CORE_AMX"},
            False,
            "AVX512_CORE_BF16",
            "DNNL_MAX_CPU_ISA=AVX512_CORE_AMX",
        ),
        ({"DNNL_MAX_CPU_ISA": "AVX512_CORE_AMX", "MXTRAIN_AMX": "0"}, True, "AVX512_CORE_AMX", None),
        ({"DNNL_MAX_CPU_ISA": "AVX2"}, True, "AVX2", "DNNL_MAX_CPU_ISA=AVX2 keeps"),
    ],
)
def test_the_matrix_units_are_used_where_linux_and_the_user_let(
    environ: dict[str, str], granted: bool, taken: str, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "tiles_are_granted", lambda: granted)
    assert kernels.onednn(SAPPHIRE_RAPIDS, environ) == taken
    found = kernels.amx_problem(SAPPHIRE_RAPIDS, environ)
    assert (said or "") in (found or "") and (found is None) == (said is None)
    assert kernels.amx_problem(SKYLAKE_X, environ) is None


@pytest.mark.parametrize("before", [None, "AVX512_CORE_AMX"])
@pytest.mark.parametrize("granted", [True, False])
def test_the_variable_stands_while_onednn_starts_and_no_longer(
    before: str | None, granted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the variable and without the permission a process dies: so it goes where Linux refuses."""
    monkeypatch.delenv("MXTRAIN_AMX", raising=False)
    monkeypatch.delenv("DNNL_MAX_CPU_ISA", raising=False)
    if before:
        monkeypatch.setenv("DNNL_MAX_CPU_ISA", before)
    monkeypatch.setattr(kernels, "tiles_are_granted", lambda: granted)
    monkeypatch.setattr(kernels.machine, "cpu_flags", lambda: SAPPHIRE_RAPIDS)
    with kernels.onednn_variable() as is_needed:
        within = os.environ.get("DNNL_MAX_CPU_ISA")
    assert is_needed == (granted or before is not None)
    assert within == (("AVX512_CORE_AMX" if granted else "AVX512_CORE_BF16") if is_needed else None)
    assert os.environ.get("DNNL_MAX_CPU_ISA") == before


def test_where_there_is_no_openblas_nothing_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels.importlib.util, "find_spec", lambda name: None)
    assert kernels.openblas() == (kernels.UNKNOWN, kernels.UNKNOWN)
    kernels.load_openblas()


def test_this_cpu_gets_the_kernels_that_its_instructions_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
    if {"avx2", "fma"} <= machine.cpu_flags():
        assert kernels.openblas().used in ("Haswell", "Zen", "Excavator")
