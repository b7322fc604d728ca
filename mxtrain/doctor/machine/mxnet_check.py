"""A child process with mxnet, which trains a step or does another thing: one that hangs or crashes is a finding.

Owns the child and its deadlines.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from subprocess import PIPE
from typing import Any, Mapping

from mxtrain.core.die_with_parent import SUPERVISOR_PID
from mxtrain.core.errors import Stop
from mxtrain.core.system import machine

CHECK_SECONDS = 120  # without any CPU time
DEADLINE_FACTOR = 8  # times as long, for a machine on which others have most of the CPU


def check(seconds: float = CHECK_SECONDS) -> dict[str, Any]:
    """Run `train_one_step` in a child process; `error` is None, or one sentence on why there is no training here."""
    return in_a_child(f"{__name__}.train_one_step()", "import and train one step", seconds=seconds)


def in_a_child(
    call: str, what: str, variables: Mapping[str, str] | None = None, seconds: float = CHECK_SECONDS
) -> dict[str, Any]:
    """Return what a `call` of a function of this package returns in a child process with these variables, or its error.

    The child counts as hanging once it has used no CPU time for `seconds`; a slow one gets DEADLINE_FACTOR times that.
    `what` it does is said of one that does not.
    """
    module = call.rpartition(".")[0]
    code = f"import json, {module}; print(json.dumps({call}))"
    code = f"from mxtrain.core.die_with_parent import die_with_parent; die_with_parent(); {code}"
    environment = {**os.environ, **(variables or {}), SUPERVISOR_PID: str(os.getpid())}
    line, deadline = [sys.executable, "-c", code], time.monotonic() + DEADLINE_FACTOR * seconds
    with subprocess.Popen(line, stdout=PIPE, stderr=PIPE, text=True, env=environment) as child:
        output = _output(child, seconds, deadline)
    if output is None:
        late, load = time.monotonic() > deadline, os.getloadavg()[0]
        busy = f", on a machine with a load of {load:.0f}: try again when it is less busy" if late else ""
        limit = DEADLINE_FACTOR * seconds if late else seconds
        return {"error": f"mxnet did not {what} within {limit:g} s{busy}"}
    stdout, stderr = output
    if child.returncode == 0:
        answer: dict[str, Any] = json.loads(stdout.splitlines()[-1])
        return answer
    last = (stderr.strip().splitlines() or ["no message"])[-1]
    return {"error": f"a process to {what} with mxnet ended with exit code {child.returncode}: {last}"}


def _output(child: subprocess.Popen[str], seconds: float, deadline: float) -> tuple[str, str] | None:
    """Return what the child printed until its end; None if it was killed, for using no CPU time or at the deadline."""
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


def train_one_step() -> dict[str, Any]:
    """Import mxnet through `mxtrain.runtime`, train one step, and return what mxnet says about itself."""
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
