"""Advice about this machine, from the facts that `facts.py` has collected. Pure."""

from __future__ import annotations

from typing import Any

from mxtrain.core.system import gpus
from mxtrain.doctor.machine import gpu_advice

SMALL_SHARED_MEMORY_BYTES = 1 << 30
FAR_OFF = 1.2  # times as fast; a measurement of a second beside others' work is not more exact
BOTH_TYPES = ("dense", "convolution")

# Read by ps-lite from the environment of every process, whoever set them and for whatever reason.
CLUSTER_VARIABLES = {
    "PORT": "ps-lite binds this port in every worker and server of the host: unset it before a dist_* run",
    "DMLC_ROLE": "a dist_* run takes this role here and starts no cluster of its own",
    "DMLC_PS_ROOT_URI": "where every process looks for the scheduler; an address, names do not work",
    "DMLC_PS_ROOT_PORT": "the scheduler's port",
    "DMLC_NUM_WORKER": "everyone waits until so many workers are there",
    "DMLC_NUM_SERVER": "everyone waits until so many servers are there",
    "DMLC_NODE_HOST": "the address this host's workers and servers bind",
    "DMLC_INTERFACE": "the network interface this host's workers and servers bind",
    "DMLC_LOCAL": "0 keeps a dist_* run of one machine on TCP; left out it uses unix sockets and shared memory",
}


def recommendations(facts: dict[str, Any]) -> list[str]:
    """Return sentences, most urgent first: what has to be done, then warnings, then flags that suit this machine."""
    advice = [] if facts["trainable"] else [str(facts["mxnet"]["error"])]
    advice += [sentence for sentence in facts["wheel_conflicts"] if sentence not in advice]
    if facts["missing_libraries"]:
        packages = " ".join(library["package"] for library in facts["missing_libraries"])
        advice.append(f"install what this system lacks: apt-get install {packages}")
    advice += [f"{name} is set: {CLUSTER_VARIABLES[name]}" for name in facts["ports"]["variables"]]
    if not facts["ports"]["loopback"]:
        advice.append("no loopback port can be bound: --kvstore dist_* will not work, use local or device")
    if facts["shared_memory"]["free_bytes"] < SMALL_SHARED_MEMORY_BYTES:
        advice.append(
            "/dev/shm is small for a Gluon DataLoader's workers (mxtrain's own do not use it): --shm-size=2g"
        )
    if facts["gpu_links"]:
        advice += gpu_advice.advise(facts["gpu_links"])
    if not facts["native_decoder"] and "avx2" in facts["cpu"]["instructions"]:
        needed = {"c_compiler": "gcc", "python_headers": "python3-dev"}
        lacking = [package for fact, package in needed.items() if not facts[fact]]
        cure = (f"apt-get install {' '.join(lacking)}, " if lacking else "") + "install mxtrain again"
        advice.append(f"pictures load 1.5 times as fast with the decoder that a C compiler builds: {cure}")
    for name in ("OMP_NUM_THREADS", "MXNET_OMP_MAX_THREADS"):
        if facts["threads"][name]:
            advice.append(
                f"{name}={facts['threads'][name]} is set and wins over this process's share of cores"
            )
    advice += _about_load(facts["threads"])
    advice += [
        f"{name}={value} is set and wins over the kernels that suit this CPU"
        for name, value in facts["kernels"]["variables"].items()
    ]
    return (
        advice + _about_speed(facts["speed"], facts["kernels"]["openblas_by_itself"]) + _suitable_flags(facts)
    )


def _about_load(threads: dict[str, Any]) -> list[str]:
    """Return what to do where others use the cores, too: OpenMP's threads spin while they wait for each other."""
    load, cores = threads["load"], threads["logical_cores"]
    if load <= cores or threads["usable_cores"] == 1 or threads["OMP_WAIT_POLICY"]:
        return []
    return [
        f"a load of {load:.0f} on {cores} cores: beside other programs OMP_WAIT_POLICY=passive, or --threads 1, can "
        "make steps many times as fast; alone on the machine it makes some slower"
    ]


def _about_speed(speed: dict[str, Any] | None, openblas_by_itself: str) -> list[str]:
    """Return what to do where kernels are far from what others reach here."""
    if speed is None:
        return []
    here = speed["here"].get("gflops", {})
    advice = [each["error"] for each in speed.values() if each is not None and each["error"]]
    for name, reached in (speed["by_itself"] or {}).get("gflops", {}).items():
        if reached > FAR_OFF * here.get(name, reached):
            way_back = (
                f"OPENBLAS_CORETYPE={openblas_by_itself}" if name.startswith("dot") else "MXTRAIN_AMX=0"
            )
            advice.append(
                f"{name} reaches {here[name]:.0f} GFLOP/s with the kernels that mxtrain chooses and {reached:.0f} "
                f"without: where doctor says so again, set {way_back}"
            )
    if is_bf16_slow(speed):
        pairs = (
            f"{each} {here[f'{each} bfloat16']:.0f} and {here[f'{each} float32']:.0f}" for each in BOTH_TYPES
        )
        advice.append(f"bfloat16 is slower than float32 here ({', '.join(pairs)} GFLOP/s): leave --amp out")
    return advice


def is_bf16_slow(speed: dict[str, Any] | None) -> bool:
    """Return whether bfloat16 was measured, and was no faster than float32 in any operator."""
    reached = {} if speed is None else speed["here"].get("gflops", {})
    return f"{BOTH_TYPES[0]} bfloat16" in reached and all(
        reached[f"{name} bfloat16"] < reached[f"{name} float32"] for name in BOTH_TYPES
    )


def _suitable_flags(facts: dict[str, Any]) -> list[str]:
    if not facts["trainable"]:
        return []
    usable = range(facts["mxnet"]["num_gpus"])
    usable_gpus = [str(index) for index in usable if gpus.device_problem(index, facts["gpu"]) is None]
    if usable_gpus:
        return [f"train with --devices gpu:{','.join(usable_gpus)}"]
    advice = f"train with --devices cpu: one context, {facts['threads']['usable_cores']} OpenMP threads"
    has_instructions = {"avx512_bf16", "amx_bf16"} & set(facts["cpu"]["instructions"])
    if has_instructions and not facts["kernels"]["bf16_problem"] and not is_bf16_slow(facts["speed"]):
        advice += "; --amp auto takes bfloat16 where it pays"
    return [advice]
