"""The gradients of a net and its loss, compared with differences of losses along random directions.

Runs in a process of its own (`doctor/run/trial.py`), imperatively, on a few samples: blocks do what their own code
says. In float32, as training does: losses are float32 whatever a net computes in, and so are many functions of users. A
parameter is wrong where most directions say so; then the search goes backwards from the loss, over the outputs of
blocks, to the block whose backward pass is at fault (`gradient_fault.py`).
"""

from __future__ import annotations

import functools
import math
import time
from typing import Any, Callable, NamedTuple

import numpy as np

from mxtrain.doctor.net import gradient_fault
from mxtrain.doctor.net.gradient_taps import Taps
from mxtrain.models import remat
from mxtrain.models.parameters import weights
from mxtrain.runtime import mx
from mxtrain.train.context import TrainContext, build_context
from mxtrain.train.input_pipeline import open_pipeline
from mxtrain.train.job import TrainingJob
from mxtrain.train.net.to_device import to_device

MOST_DIRECTIONS = 3
STEPS = (2e-3, 5e-4)  # relative to what is moved; where two give different slopes there is a kink in between
TOLERANCE = 0.05  # of a slope: below it lie curvature and rounding
ROUNDING = 3e-7  # of a loss, the last bits of float32
TOWARDS = 2.0  # of the gradient's own direction in each, beside a random one
NOISE = 0.05  # added to weights, relative to them: zeros put ReLUs exactly on their kink


class Check(NamedTuple):
    """A judgement of one gradient: how many directions are clear, and how many of these disagree."""

    clear: int
    wrong: int
    error: float  # relative, the median of the clear ones
    is_zero: bool  # the gradient, exactly

    @property
    def is_wrong(self) -> bool:
        return 2 * self.wrong > self.clear


class Losses:
    """The loss of one batch as a function of a net's weights, always with the same random numbers."""

    def __init__(self, job: TrainingJob, context: TrainContext, batch: Any):
        self._context, self._seed = context, job.run.optim.seed
        self.net, self.device = remat.unwrapped(context.net), context.devices[0]
        prepared = context.prepare({name: array.copy() for name, array in batch.arrays.items()}, 0, 0)
        self._arrays = {name: to_device(array, self.device) for name, array in prepared.items()}

    def __call__(self) -> float:
        """Return the sum of the losses, as training computes it."""
        mx.random.seed(self._seed, ctx=self.device)
        with mx.autograd.train_mode():
            losses = self._context.forward(self.net, self._arrays).losses
        return float(losses.asnumpy().astype(np.float64).sum())

    def backward(self) -> None:
        """Compute the gradients of that sum."""
        mx.random.seed(self._seed, ctx=self.device)
        with mx.autograd.record():
            losses = self._context.forward(self.net, self._arrays).losses
        losses.backward()


def measure(job: TrainingJob, seconds: float) -> dict[str, Any]:
    """Return the `parameters` that are wrong, with their errors, the `culprits`, and those of no gradient."""
    with open_pipeline(job, range(1)) as pipeline:
        batch = next(iter(pipeline.batches(0)))
        context = build_context(job, is_trial=True)
        remat.unwrapped(context.net).hybridize(active=False)
        _leave_kinks(context, job.run.optim.seed)
        return _examined(Losses(job, context, batch), seconds)


def _examined(losses: Losses, seconds: float) -> dict[str, Any]:
    named = {
        name: parameter
        for name, parameter in weights.named_parameters(losses.net).items()
        if parameter.grad_req != "null"
    }
    losses.backward()
    gradients = {name: parameter.grad(losses.device).asnumpy() for name, parameter in named.items()}
    started, value = time.monotonic(), losses()
    of_one = time.monotonic() - started
    directions = min(MOST_DIRECTIONS, max(1, int(seconds / (3 * of_one * max(1, len(named))))))
    checks = {}
    for number, (name, parameter) in enumerate(named.items()):
        array = parameter.data(losses.device)
        checks[name] = _check(losses, _mover(array), array.asnumpy(), gradients[name], directions, number)
    wrong = {name: check.error for name, check in checks.items() if check.is_wrong}
    findings: dict[str, Any] = {
        **{"directions": directions, "loss": value, "examined": len(checks)},
        "unclear": sum(not check.clear for check in checks.values()),
        "wrong": wrong,
        "no_gradient": [name for name, check in checks.items() if check.is_zero],
        "culprits": [],
    }
    if wrong:
        findings["culprits"] = _culprits(losses, list(wrong), directions)
    return findings


def _culprits(losses: Losses, wrong: list[str], directions: int) -> list[str]:
    """Return the blocks whose backward pass is at fault, or the loss."""
    with Taps(losses.net) as taps:
        losses.backward()
        calls = taps.finish()
        last_wrong = None
        for place in reversed(range(len(calls))):
            tap = calls[place]
            move = functools.partial(taps.move, place)
            check = _check(losses, move, tap.value, tap.gradient, directions, place)
            if check.is_wrong:
                last_wrong = place
                break
    return gradient_fault.culprits(calls, last_wrong, wrong)


def _check(
    losses: Callable[[], float],
    move: Callable[[Any], None],
    value: Any,
    gradient: Any,
    directions: int,
    number: int,
) -> Check:
    """Compare a gradient with differences of the losses as `move` adds directions to what is `value` now."""
    rng = np.random.default_rng(number)
    scale = math.sqrt(float(np.mean(np.square(value, dtype=np.float64)))) or 1.0
    typical = float(np.linalg.norm(gradient.astype(np.float64)))
    errors = []
    for _ in range(directions):
        direction = rng.standard_normal(value.shape)
        slope = float((gradient * direction).sum(dtype=np.float64))
        if typical:  # a random direction alone may be almost level
            direction += math.copysign(TOWARDS / typical, slope) * gradient
        expected = float((gradient * direction).sum(dtype=np.float64))
        error = _error(losses, move, direction, scale, expected, typical)
        if error is not None:
            errors.append(error)
    wrong = sum(error > TOLERANCE for error in errors)
    middle = float(np.median(errors)) if errors else 0.0
    return Check(len(errors), wrong, middle, not np.any(gradient))


def _error(
    losses: Callable[[], float],
    move: Callable[[Any], None],
    direction: Any,
    scale: float,
    expected: float,
    typical: float,
) -> float | None:
    """Return the relative error along a direction; None where steps of two lengths disagree: a kink, or rounding."""
    errors: list[float] = []
    for step in (relative * scale for relative in STEPS):
        above, below = (_moved(losses, move, sign * step * direction) for sign in (1, -1))
        noise = ROUNDING * max(abs(above), abs(below), 1e-30) / step
        errors.append((above - below) / (2 * step))
        largest = max(abs(errors[0]), abs(expected), typical, noise / TOLERANCE)
        if abs(errors[-1] - expected) <= TOLERANCE * largest:
            return abs(errors[-1] - expected) / largest
    is_smooth = abs(errors[0] - errors[1]) <= TOLERANCE * largest
    return abs(errors[0] - expected) / largest if is_smooth else None


def _moved(losses: Callable[[], float], move: Callable[[Any], None], by: Any) -> float:
    move(by)
    try:
        return losses()
    finally:
        move(None)


def _mover(array: Any) -> Callable[[Any], None]:
    """Return a function that adds to a parameter's array, and with None puts its values back."""
    kept = array.copy()

    def move(by: Any) -> None:
        array[:] = kept if by is None else kept + mx.nd.array(by, ctx=array.context, dtype=array.dtype)

    return move


def _leave_kinks(context: TrainContext, seed: int) -> None:
    """Move all weights a little: biases of zero put the ReLUs of an empty patch exactly on their kink."""
    rng = np.random.default_rng(seed)
    for parameter in context.trainer.parameters:
        if parameter.grad_req == "null":
            continue
        value = parameter.data(context.devices[0]).asnumpy()
        size = math.sqrt(float(np.mean(np.square(value, dtype=np.float64)))) or 1.0
        noise = NOISE * size * rng.standard_normal(value.shape)
        parameter.set_data(mx.nd.array(value + noise, dtype=value.dtype))
