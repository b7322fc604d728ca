"""A solver.prototxt of Caffe's: optimizer, rate, length and intervals, as flags of fit.

Caffe counts iterations, fit's schedules epochs: an epoch's length is given. Owns which field is which flag, and the
list of those that are none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mxtrain.convert.caffe.caffe_net import NONE, ConvertedFlags, Lost
from mxtrain.convert.caffe.prototxt import Field, Message
from mxtrain.core.errors import DataError
from mxtrain.data.loading.order import steps_per_epoch

OPTIMIZERS = {
    **{"sgd": "sgd", "nesterov": "nag", "adam": "adam", "adagrad": "adagrad"},
    **{"rmsprop": "rmsprop", "adadelta": "adadelta"},
}
OLD_TYPES = {"0": "sgd", "1": "nesterov", "2": "adagrad"}  # solver_type as a number
POLICIES = ("fixed", "step", "exp", "inv", "multistep", "poly", "sigmoid")
READ = (
    *(
        "net",
        "train_net",
        "test_net",
        "base_lr",
        "lr_policy",
        "gamma",
        "power",
        "stepsize",
        "stepvalue",
        "max_iter",
    ),
    *("momentum", "momentum2", "delta", "rms_decay", "weight_decay", "type", "solver_type", "iter_size"),
    *("test_interval", "snapshot", "snapshot_prefix", "random_seed", "clip_gradients"),
)
REASONS = {
    "display": "every step is recorded in metrics.jsonl",
    "average_loss": "losses are recorded as they are; mxtrain.report draws them smoothed",
    "test_iter": "all of --val is evaluated",
    "test_initialization": "there is no evaluation before the first step",
    "solver_mode": "is --devices: cpu, or gpu:0",
    "device_id": "is --devices gpu:N",
    "snapshot_after_train": "the last step always has a checkpoint",
    "snapshot_format": "checkpoints have a format of their own",
    "debug_info": "is --profile, and what mxtrain.report shows of layers",
    "regularization_type": "weight decay is that of L2",
    "weights": "a .caffemodel is not read",
}


def read(path: Path, solver: Message, batch: int, num_samples: int) -> ConvertedFlags:
    """Return the flags of a solver whose net takes `batch` samples an iteration, of a training set of `num_samples`."""
    flags: dict[str, Any] = {}
    lost: list[Lost] = []
    accumulate = int(_number(path, solver, "iter_size", 1))
    flags["batch_size"] = batch * accumulate
    if accumulate > 1:
        flags["micro_batch"] = batch
    steps = steps_per_epoch(num_samples, batch * accumulate)
    max_iter = int(_number(path, solver, "max_iter", 0))
    if max_iter < 1:
        raise DataError(f"{path}: has no max_iter; is it a solver.prototxt?")
    flags.update(epochs=-(-max_iter // steps), max_steps=max_iter)
    flags["lr"] = _number(path, solver, "base_lr", 0.01)
    flags["weight_decay"] = _number(path, solver, "weight_decay", 0.0)
    _read_optimizer(path, solver, flags, lost)
    flags["schedule"] = _schedule(path, solver, steps, max_iter, lost)
    for field, flag in (("test_interval", "evaluate_steps"), ("snapshot", "checkpoint_steps")):
        every = int(_number(path, solver, field, 0))
        if 0 < every < max_iter:
            flags[flag] = every
    clip = _number(path, solver, "clip_gradients", -1.0)
    if clip > 0:
        flags["clip_norm"] = clip
    seed = int(_number(path, solver, "random_seed", -1))
    if seed >= 0:
        flags["seed"] = seed
    prefix = solver.last("snapshot_prefix")
    if prefix is not None:
        flags["out"] = f"runs/{Path(str(prefix.value)).name}"
    for each in solver:
        is_usual = each.name == "regularization_type" and each.value == "L2"
        if each.name not in READ and not is_usual:
            lost.append(_lost(path, each, REASONS.get(each.name, NONE)))
    return ConvertedFlags(flags, lost)


def _read_optimizer(path: Path, solver: Message, flags: dict[str, Any], lost: list[Lost]) -> None:
    field = solver.last("type") or solver.last("solver_type")
    solver_type = "sgd" if field is None else str(field.value).lower()
    solver_type = OLD_TYPES.get(solver_type, solver_type)
    if solver_type not in OPTIMIZERS:
        lost.append(_lost(path, field, f"is not known; {', '.join(OPTIMIZERS)} are"))
        solver_type = "sgd"
    name, numbers = OPTIMIZERS[solver_type], {}
    if name in ("sgd", "nag", "adam"):
        flags["momentum"] = _number(path, solver, "momentum", 0.9 if name == "adam" else 0.0)
    elif name == "adadelta":
        numbers["rho"] = _number(path, solver, "momentum", 0.0)
    elif solver.last("momentum") is not None:
        lost.append(_lost(path, solver.last("momentum"), f"{solver_type} takes none"))
    for key, there, optimizers in (
        ("beta2", "momentum2", ("adam",)),
        ("gamma1", "rms_decay", ("rmsprop",)),
        ("epsilon", "delta", ("adam", "adagrad", "rmsprop", "adadelta")),
    ):
        field_there = solver.last(there)
        if field_there is not None and name in optimizers:
            numbers[key] = _number(path, solver, there, 0.0)
        elif field_there is not None:
            lost.append(_lost(path, field_there, f"{solver_type} takes none"))
    written = ",".join(f"{key}={value:g}" for key, value in numbers.items())
    flags["optimizer"] = name + (f":{written}" if written else "")


def _schedule(path: Path, solver: Message, steps: int, max_iter: int, lost: list[Lost]) -> str:
    """Return --schedule, which counts epochs of so many steps."""
    field = solver.last("lr_policy")
    policy = "fixed" if field is None else str(field.value)
    gamma, power = _number(path, solver, "gamma", 0.1), _number(path, solver, "power", 1.0)
    stepsize = _number(path, solver, "stepsize", max_iter)
    if policy == "step":
        return f"step:every={stepsize / steps:.12g},factor={gamma:g}"
    if policy == "multistep":
        at = [value for value in (_of(path, each) for each in solver.all("stepvalue")) if value < max_iter]
        epochs = "/".join(f"{value / steps:.12g}" for value in sorted(set(at)))
        return f"multistep:at={epochs},factor={gamma:g}" if at else "constant"
    if policy == "poly":
        return f"poly:power={power:g}"
    if policy == "inv":
        return f"inv:gamma={gamma * steps:.12g},power={power:g}"
    if policy == "exp":
        return f"exp:factor={gamma**steps:.12g}"
    if policy == "sigmoid":
        lost.append(
            _lost(path, field, "is nearly --schedule sigmoid, which begins at the full rate and ends at 0")
        )
        return f"sigmoid:steepness={abs(gamma) * max_iter:g},middle={stepsize / max_iter:g}"
    if policy != "fixed":
        lost.append(_lost(path, field, f"is not known; {', '.join(POLICIES)} are"))
    return "constant"


def _number(path: Path, solver: Message, name: str, otherwise: float) -> float:
    field = solver.last(name)
    return otherwise if field is None else _of(path, field)


def _of(path: Path, field: Field) -> float:
    if not isinstance(field.value, (int, float)):
        raise DataError(f"{path}:{field.line}: {field.name} is '{field.value}', not a number")
    return field.value


def _lost(path: Path, field: Field | None, why: str) -> Lost:
    assert field is not None, "only fields that are there are lost"
    value = "{...}" if isinstance(field.value, Message) else field.value
    return Lost(path, field.line, f"{field.name}: {value}", why)
