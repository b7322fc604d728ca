"""Learning rate schedules: `--schedule`.

Owns the rate of each step, as a pure function of the step: a schedule maps a point of the run to a factor of the peak
rate, without state, so a resumed run needs only its step. Some schedules are spread over the run, others count epochs
and do not depend on its length. Which there are is said in `config/components/schedules.py`.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
import numbers
from typing import Any, Callable, NamedTuple

from mxtrain.config import Optim
from mxtrain.config.checks.bounds import FAR, SMALLEST
from mxtrain.config.components import import_path
from mxtrain.config.components import schedules as components
from mxtrain.config.program_objects import NO_OBJECTS, ProgramObjects
from mxtrain.core.errors import UsageError, as_user_code, in_user_code
from mxtrain.data.loading.run_plan import RunLength
from mxtrain.optim.average_plan import settling_steps

MAX_PLOTTED_PARTS = 1000  # of the warm-up, and of the rest, from which the rate is plotted
ROUNDING = 1e-9  # a number this close to a whole one is taken for it


class SchedulePoint(NamedTuple):
    """A point of a run, before an update."""

    progress: float  # from 0 at the end of the warm-up to 1 at the end of the run
    epoch: float  # epochs since the start of the run, with a fraction
    epochs_since_warmup: float


def constant(point: SchedulePoint) -> float:
    return 1.0


def cosine(point: SchedulePoint, cycles: int, decay: float, floor: float) -> float:
    """Fall to `floor` by half a cosine wave, `cycles` times, each starting at `decay` times the one before."""
    cycle = min(int(point.progress * cycles + ROUNDING), cycles - 1)
    return _half_cosine(point.progress * cycles - cycle, max(decay**cycle, floor), floor)


def linear(point: SchedulePoint, floor: float) -> float:
    return floor + (1.0 - floor) * (1.0 - point.progress)


def poly(point: SchedulePoint, power: float, floor: float) -> float:
    return linear(point._replace(progress=1.0 - (1.0 - point.progress) ** power), floor)


def sigmoid(point: SchedulePoint, steepness: float, middle: float, floor: float) -> float:
    """Fall from 1 to `floor` by a logistic curve."""
    first, last, here = (
        1.0 / (1.0 + math.exp(steepness * (at - middle))) for at in (0.0, 1.0, point.progress)
    )
    return floor + (1.0 - floor) * (here - last) / (first - last)


def one_cycle(point: SchedulePoint, rise: float, start: float, floor: float) -> float:
    """Rise from `start` in the fraction `rise` of the run, then fall to `floor`, each by half a cosine wave."""
    if point.progress < rise:
        return _half_cosine(1.0 - point.progress / rise, 1.0, start)
    return _half_cosine((point.progress - rise) / (1.0 - rise), 1.0, floor)


def step(point: SchedulePoint, every: float, factor: float) -> float:
    return float(factor ** math.floor(point.epoch / every + ROUNDING))


def multistep(point: SchedulePoint, at: tuple[float, ...], factor: float) -> float:
    return factor ** sum(epoch <= point.epoch + ROUNDING for epoch in at)


def exp(point: SchedulePoint, factor: float) -> float:
    return float(factor**point.epochs_since_warmup)


def inv(point: SchedulePoint, gamma: float, power: float) -> float:
    return float((1.0 + gamma * point.epochs_since_warmup) ** -power)


def _half_cosine(fraction: float, top: float, floor: float) -> float:
    """Return the value at `fraction` of a half wave from `top` down to `floor`."""
    return floor + (top - floor) * 0.5 * (1.0 + math.cos(math.pi * fraction))


def peak_rate(optim: Optim) -> float:
    """Return the rate that the schedule's factors multiply: --lr, or with --lr-base-batch by the linear rule."""
    return optim.lr * optim.batch_size / optim.lr_base_batch if optim.lr_base_batch else optim.lr


def rate_function(
    optim: Optim, length: RunLength, objects: ProgramObjects = NO_OBJECTS
) -> Callable[[int], float]:
    """Return a function from a step, counted from 0, to its learning rate, in a run of this length."""
    steps_per_epoch, num_steps = length
    if optim.average:
        moving = dataclasses.replace(optim, average=0)
        num_moving = num_steps - settling_steps(optim, length)
        rate_of = rate_function(moving, RunLength(steps_per_epoch, num_moving), objects)
        return lambda step: rate_of(step) if step < num_moving else 0.0
    scheduler = _scheduler(optim, objects)
    if scheduler is not None:
        return functools.partial(_rate_of_scheduler, scheduler)
    name, hyperparameters = components.parse(optim)
    factor: Callable[[SchedulePoint], float]
    if name in components.SCHEDULES:
        factor = functools.partial(components.SCHEDULES[name].load(), **hyperparameters)
    else:
        own: Callable[[float], Any] = as_user_code(
            f"--schedule {name}", import_path.load_callable("--schedule", name, objects)
        )

        def factor(point: SchedulePoint) -> float:
            return _checked(own(point.progress), name, point.progress)

    highest, num_warmup_steps = peak_rate(optim), warmup_steps(optim, steps_per_epoch)

    def point_at(step: int) -> SchedulePoint:
        after = step - num_warmup_steps
        progress = min(after / max(1, num_steps - num_warmup_steps), 1.0)
        return SchedulePoint(progress, step / steps_per_epoch, after / steps_per_epoch)

    def rate(step: int) -> float:
        if step < num_warmup_steps:  # rise linearly to the schedule's first rate
            rate_now = highest * factor(point_at(num_warmup_steps)) * (step + 1) / (num_warmup_steps + 1)
        else:
            rate_now = highest * factor(point_at(step))
        return rate_now if rate_now >= SMALLEST else 0.0

    return rate


def _scheduler(optim: Optim, objects: ProgramObjects) -> Any:
    """Return the LRScheduler of MXNet's that a program gave, whose rates are no factors of a peak; None without one."""
    own = objects.get("--schedule", optim.schedule)
    return own if hasattr(own, "base_lr") else None


def _rate_of_scheduler(scheduler: Any, step: int) -> float:
    """Return the rate of a step by a copy: schedulers keep what they last said, and updates count from 1."""
    with in_user_code("--schedule"):
        rate = copy.deepcopy(scheduler)(step + 1)
    if not isinstance(rate, numbers.Real) or not 0 <= float(rate) < math.inf:
        raise UsageError(f"--schedule: gave {rate!r} at update {step + 1}; give a number from 0 on")
    return float(rate)


def warmup_steps(optim: Optim, steps_per_epoch: float) -> int:
    """Return the number of steps of the warm-up."""
    return round(optim.warmup_epochs * steps_per_epoch)


def plotted_steps(optim: Optim, length: RunLength) -> list[int]:
    """Return the steps to plot the rate at: all, or of a long run the first and last steps of equal parts.

    The warm-up and what follows it are divided into parts separately, so that a plot shows the peak.
    """
    peak_step = min(warmup_steps(optim, length.steps_per_epoch), length.num_steps)
    found: set[int] = set()
    for begin, end in ((0, peak_step), (peak_step, length.num_steps)):
        parts = min(MAX_PLOTTED_PARTS, end - begin)
        edges = [begin + (end - begin) * part // parts for part in range(parts + 1)] if parts else []
        found.update(edges[:-1], (edge - 1 for edge in edges[1:]))
    return sorted(found)


def summary(optim: Optim, length: RunLength, objects: ProgramObjects = NO_OBJECTS) -> str:
    """Return the line of the plan that describes the learning rate."""
    steps_per_epoch, num_steps = length
    if _scheduler(optim, objects) is not None:
        return f"learning rate: {optim.schedule} over {num_steps} steps"
    rule = f" (--lr {optim.lr:g} x {optim.batch_size} / {optim.lr_base_batch})" if optim.lr_base_batch else ""
    warmup = warmup_steps(optim, steps_per_epoch)
    climb = f"{warmup} steps of warm-up, then " if warmup else ""
    return f"learning rate: peak {peak_rate(optim):g}{rule}, {climb}{optim.schedule} over {num_steps} steps"


def nothing_left_message(optim: Optim, steps_per_epoch: float, step: int) -> str:
    """Return the message that names the flag by which a run ends at `step` or before."""
    of_epochs = int(optim.epochs * steps_per_epoch)
    limit, num_steps = f"--epochs {optim.epochs} ({of_epochs} steps)", of_epochs
    if 0 < optim.max_steps < of_epochs:
        limit, num_steps = f"--max-steps {optim.max_steps}", optim.max_steps
    fewer = " (it asks for fewer, and nothing is undone)" if num_steps < step else ""
    done = f"nothing left to do: {step} steps are done, and {limit} allows no more{fewer}"
    return f"{done}; a higher one goes on from here"


def _checked(factor: Any, name: str, progress: float) -> float:
    if not isinstance(factor, numbers.Real) or not 0 <= float(factor) <= FAR:
        raise UsageError(
            f"--schedule {name}: gave {factor!r} at {progress:g}; give a number from 0 to {FAR:g}"
        )
    return float(factor)
