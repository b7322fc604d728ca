"""python -m mxtrain.doctor: what this machine and this environment can do, what is wrong, what to do about it.

Owns the examination and its two forms, a table and --json. The facts are `machine`'s; mxnet is asked in a child
process with a deadline, so that one that hangs or crashes is a finding here and not the end of the report.
"""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from mxtrain.core import interrupts

    interrupts.exit_on_signal("mxtrain.doctor")

import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import sysconfig
import textwrap
import time
from pathlib import Path
from subprocess import PIPE
from typing import Any

import mxtrain
from mxtrain.config.arguments import Parser
from mxtrain.core import interrupts, kernels, machine
from mxtrain.core.die_with_parent import SUPERVISOR_PID
from mxtrain.core.errors import Stop, UsageError, one_line
from mxtrain.data import native

PROBE_SECONDS = 120  # in which it may get no CPU time at all
PROBE_PATIENCE = 8  # times as long, for a machine on which others have most of it
SMALL_SHARED_MEMORY_BYTES = 1 << 30
TABLE_COLUMNS, NAME_COLUMNS = 100, 14

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
    "DMLC_LOCAL": "0 keeps a dist_* run of one machine on TCP; left out it uses unix sockets",
}


def main(argv: list[str] | None = None) -> int:
    return one_line("mxtrain.doctor", lambda: doctor(argv))


def doctor(argv: list[str] | None = None) -> None:
    """Print the examination; end with a UsageError where training cannot work."""
    parser = Parser(
        prog="python -m mxtrain.doctor",
        description="Examine this machine and environment. Exits with 0 where mxtrain can train, 2 where not.",
    )
    parser.add_argument("--json", action="store_true", help="print all facts as one JSON object")
    parser.add_argument(
        "--comm", action="store_true", help="only measure, for up to a minute, what a dist_* store costs here"
    )
    options = parser.parse_args(argv)
    if options.comm:
        communication(options.json)
        return
    facts = examine()
    print(json.dumps(facts, indent=2) if options.json else table(facts), flush=True)
    if not facts["trainable"]:
        raise UsageError(f"cannot train here: {facts['mxnet']['error']}")


def communication(as_json: bool) -> None:
    """Print what sums over two workers cost here and what to set; a UsageError where not even one job worked."""
    from mxtrain.probe import advice, jobs

    if not ports()["loopback"]:
        raise UsageError("no loopback port can be bound here, so no dist_* store works")
    with interrupts.stopped_by_signal("mxtrain.doctor"):
        measured = jobs.measure()
    measured["recommendations"] = advice.advise(measured)
    print(json.dumps(measured, indent=2) if as_json else aligned(advice.rows(measured)), flush=True)
    if all(job["error"] for job in measured["jobs"]):
        raise UsageError(f"no cluster of two workers came up: {measured['jobs'][0]['error']}")


def examine() -> dict[str, Any]:
    """Every fact, as plain JSON values."""
    facts: dict[str, Any] = {
        "versions": {
            "mxtrain": mxtrain.__version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            **machine.installed_wheels(),
        },
        "mxnet": ask_mxnet(),
        "cpu": machine.cpu(),
        "kernels": kernel_facts(),
        "threads": threads(),
        "gpu": machine.gpus(),
        "shared_memory": machine.shared_memory(),
        "native_decoder": native.crop is not None,
        "c_compiler": shutil.which("cc") is not None or shutil.which("gcc") is not None,
        "python_headers": (Path(sysconfig.get_path("include")) / "Python.h").is_file(),
        "ports": ports(),
        "wheel_conflicts": machine.wheel_conflicts(),
        "missing_libraries": machine.missing_libraries(),
    }
    facts["trainable"] = facts["mxnet"]["error"] is None
    facts["recommendations"] = recommendations(facts)
    return facts


def ask_mxnet(seconds: float = PROBE_SECONDS) -> dict[str, Any]:
    """`probe_mxnet` in a child process; `error` is None, or one sentence why there is no training here.

    It hangs where it gets no CPU time for so many seconds; that it takes as long as that may be the fault of others.
    """
    code = "import json; from mxtrain.doctor import probe_mxnet; print(json.dumps(probe_mxnet()))"
    code = f"from mxtrain.core.die_with_parent import die_with_parent; die_with_parent(); {code}"
    environment = {**os.environ, SUPERVISOR_PID: str(os.getpid())}
    line, deadline = [sys.executable, "-c", code], time.monotonic() + PROBE_PATIENCE * seconds
    with subprocess.Popen(line, stdout=PIPE, stderr=PIPE, text=True, env=environment) as child:
        said = _output(child, seconds, deadline)
    if said is None:
        late, load = time.monotonic() > deadline, os.getloadavg()[0]
        busy = f", on a machine with a load of {load:.0f}: try again when it is less busy" if late else ""
        limit = PROBE_PATIENCE * seconds if late else seconds
        return {"error": f"mxnet did not import and train one step within {limit:g} s{busy}"}
    stdout, stderr = said
    if child.returncode == 0:
        found: dict[str, Any] = json.loads(stdout.splitlines()[-1])
        return found
    last = (stderr.strip().splitlines() or ["no message"])[-1]
    return {"error": f"importing mxnet and training one step ended with exit code {child.returncode}: {last}"}


def _output(child: subprocess.Popen[str], seconds: float, deadline: float) -> tuple[str, str] | None:
    """What the child printed until its end; None where it was ended, for using no CPU time or for the deadline."""
    used, since = -1.0, time.monotonic()
    while True:
        try:
            return child.communicate(timeout=min(seconds / 10, 1))
        except subprocess.TimeoutExpired:
            now, before, used = time.monotonic(), used, machine.cpu_seconds(child.pid)
        since = now if used > before else since
        if now - since > seconds or now > deadline:
            child.kill()
            return None


def probe_mxnet() -> dict[str, Any]:
    """Import mxnet through the door, train one step, and tell what mxnet says about itself."""
    started = time.monotonic()
    try:
        from mxtrain.runtime import gluoncv, mx
    except Stop as stop:
        return {"error": str(stop)}
    import_seconds = time.monotonic() - started
    net = gluoncv.model_zoo.get_model("cifar_resnet20_v1", classes=2)
    net.initialize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd")
    with mx.autograd.record():
        loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()(net(mx.nd.ones((2, 3, 32, 32))), mx.nd.array([0, 1]))
    loss.backward()
    trainer.step(2)
    mx.nd.waitall()
    return {
        "error": None,
        "import_seconds": round(import_seconds, 2),
        "features": sorted(name for name, feature in mx.runtime.Features().items() if feature.enabled),
        "num_gpus": mx.context.num_gpus(),
    }


def kernel_facts() -> dict[str, Any]:
    """What MXNet's libraries compute with, what OpenBLAS would take by itself, and why there is no bfloat16."""
    return {
        **kernels.used(),
        "openblas_by_itself": kernels.openblas().own,
        "bf16_problem": kernels.bf16_problem(),
        "variables": {name: os.environ[name] for name in kernels.VARIABLES if os.environ.get(name)},
    }


def threads() -> dict[str, Any]:
    """How many cores there are, how many are ours, and what the user says about it."""
    return {
        "logical_cores": os.cpu_count(),
        "usable_cores": machine.usable_cores(),
        "cgroup_cores": machine.cgroup_cores(),
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS"),
        "MXNET_OMP_MAX_THREADS": os.environ.get("MXNET_OMP_MAX_THREADS"),
    }


def ports() -> dict[str, Any]:
    """Whether a loopback port can be bound, and the variables that would steer a cluster."""
    found: dict[str, Any] = {"loopback": True, "free_port": None, "error": None}
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            probe.listen(1)
            found["free_port"] = probe.getsockname()[1]
    except OSError as error:
        found.update(loopback=False, error=str(error))
    found["variables"] = {name: os.environ[name] for name in CLUSTER_VARIABLES if name in os.environ}
    return found


def recommendations(facts: dict[str, Any]) -> list[str]:
    """What to do, most urgent first: cures, then warnings, then the flags that suit this machine."""
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
    advice += [
        f"{name}={value} is set and wins over the kernels that suit this CPU"
        for name, value in facts["kernels"]["variables"].items()
    ]
    return advice + _suitable_flags(facts)


def _suitable_flags(facts: dict[str, Any]) -> list[str]:
    if not facts["trainable"]:
        return []
    usable = range(facts["mxnet"]["num_gpus"])
    usable_gpus = [str(index) for index in usable if machine.device_problem(index, facts["gpu"]) is None]
    if usable_gpus:
        return [f"train with --devices gpu:{','.join(usable_gpus)}"]
    advice = f"train with --devices cpu: one context, {facts['threads']['usable_cores']} OpenMP threads"
    has_instructions = {"avx512_bf16", "amx_bf16"} & set(facts["cpu"]["instructions"])
    if has_instructions and not facts["kernels"]["bf16_problem"]:
        advice += "; --amp bf16 speeds plain convolutions up and depthwise ones (MobileNet) down"
    return [advice]


def table(facts: dict[str, Any]) -> str:
    return aligned(_rows(facts))


def aligned(rows: list[tuple[str, list[str]]]) -> str:
    """Names and their paragraphs as text, at most TABLE_COLUMNS wide."""
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
        ("threads", [f"{threads['usable_cores']} usable of {threads['logical_cores']} cores{quota}"]),
        ("gpu", gpus or [f"none: {facts['gpu']['reason']}"]),
        ("/dev/shm", [f"{shm['free_bytes'] / 2**20:,.0f} MiB free of {shm['total_bytes'] / 2**20:,.0f} MiB"]),
        ("loading", ["native decoder" if facts["native_decoder"] else "no native decoder"]),
        ("ports", [bound, *(f"{name}={value}" for name, value in ports["variables"].items())]),
        ("wheels", facts["wheel_conflicts"] or ["no conflicts"]),
        ("libraries", missing or ["none missing"]),
        ("recommended", facts["recommendations"]),
        ("verdict", ["trainable" if facts["trainable"] else "not trainable"]),
    ]


def _kernels_line(found: dict[str, Any]) -> str:
    used, own = found["openblas"], found["openblas_by_itself"]
    by_itself = "" if used == own else f" (it does not know this CPU and would take {own})"
    problem = found["bf16_problem"]
    no_bf16 = f"; --amp bf16 {problem}" if problem else ""
    return f"OpenBLAS {used}{by_itself}, oneDNN {found['onednn']}{no_bf16}"


if __name__ == "__main__":
    raise SystemExit(main())
