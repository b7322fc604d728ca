"""The facts of a machine as a table of text."""

from __future__ import annotations

import textwrap
from typing import Any

from mxtrain.doctor.machine import gpu_advice

TABLE_COLUMNS, NAME_COLUMNS = 100, 14


def of_facts(facts: dict[str, Any]) -> str:
    """Return the table of what `facts.examine` found."""
    return align(_rows(facts))


def align(rows: list[tuple[str, list[str]]]) -> str:
    """Return rows, each a name and its paragraphs, as text of at most TABLE_COLUMNS columns."""
    lines: list[str] = []
    for name, paragraphs in rows:
        for number, paragraph in enumerate(paragraphs):
            lines += textwrap.wrap(
                paragraph,
                width=TABLE_COLUMNS,
                initial_indent=(name if number == 0 else "").ljust(NAME_COLUMNS),
                subsequent_indent=" " * NAME_COLUMNS,
                break_on_hyphens=False,
            )
    return "\n".join(lines)


def _rows(facts: dict[str, Any]) -> list[tuple[str, list[str]]]:
    threads, shm, ports, mxnet = (facts[k] for k in ("threads", "shared_memory", "ports", "mxnet"))
    quota = f", cgroup quota {threads['cgroup_cores']:g}" if threads["cgroup_cores"] is not None else ""
    gpus = [
        f"gpu:{gpu['index']} {gpu['name']}, compute capability {'.'.join(map(str, gpu['capability']))}, "
        f"{gpu['memory_bytes'] / 2**30:.1f} GiB"
        for gpu in facts["gpu"]["devices"]
    ]
    bound = f"loopback works, {ports['free_port']} is free" if ports["loopback"] else ports["error"]
    missing = [f"{lib['library']} (Debian: {lib['package']})" for lib in facts["missing_libraries"]]
    return [
        ("versions", [", ".join(f"{name} {version}" for name, version in facts["versions"].items())]),
        ("mxnet", [mxnet["error"] or f"imports in {mxnet['import_seconds']} s and trains"]),
        ("features", [" ".join(mxnet.get("features", [])) or "unknown"]),
        (
            "cpu",
            [f"{facts['cpu']['name']}: {' '.join(facts['cpu']['instructions']) or 'nothing beyond SSE'}"],
        ),
        ("kernels", [_kernels_line(facts["kernels"])]),
        ("speed", _speed_lines(facts["speed"])),
        ("threads", [f"{threads['usable_cores']} usable of {threads['logical_cores']} cores{quota}"]),
        ("gpu", gpus or [f"none: {facts['gpu']['reason']}"]),
        *([("gpu links", gpu_advice.lines(facts["gpu_links"]))] if facts["gpu_links"] else []),
        ("/dev/shm", [f"{shm['free_bytes'] / 2**20:,.0f} MiB free of {shm['total_bytes'] / 2**20:,.0f} MiB"]),
        ("loading", ["native decoder" if facts["native_decoder"] else "no native decoder"]),
        ("ports", [bound, *(f"{name}={value}" for name, value in ports["variables"].items())]),
        ("wheels", facts["wheel_conflicts"] or ["no conflicts"]),
        ("libraries", missing or ["none missing"]),
        ("recommended", facts["recommendations"]),
        ("verdict", ["trainable" if facts["trainable"] else "not trainable"]),
    ]


def _kernels_line(findings: dict[str, Any]) -> str:
    used, own = findings["openblas"], findings["openblas_by_itself"]
    by_itself = "" if used == own else f" (it does not know this CPU and would take {own})"
    problem = findings["bf16_problem"]
    no_bf16 = f"; --amp bf16 {problem}" if problem else ""
    tiles = f"; {findings['no_amx']}" if findings["no_amx"] else ""
    return f"OpenBLAS {used}{by_itself}, oneDNN {findings['onednn']}{tiles}{no_bf16}"


def _speed_lines(findings: dict[str, Any] | None) -> list[str]:
    if findings is None:
        return ["not measured"]
    lines = [_speed_line(findings["here"])]
    if findings["by_itself"] is not None:
        lines.append(f"without mxtrain's choice of kernels: {_speed_line(findings['by_itself'])}")
    return lines


def _speed_line(measured: dict[str, Any]) -> str:
    if measured["error"]:
        return str(measured["error"])
    return "GFLOP/s: " + ", ".join(f"{name} {value:.0f}" for name, value in measured["gflops"].items())
