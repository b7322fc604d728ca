"""Learning rates as pure functions of how far the run has come: `--schedule`.

A schedule maps a moment of the run to a factor on the peak rate. It keeps no state, so a resumed run needs nothing but
its step. Some are spread over the run, others count epochs and do not depend on its length. The names and their
numbers are `config/catalogue.py`'s.
"""

from __future__ import annotations

import functools
import math
import numbers
from typing import Any, Callable, NamedTuple

from mxtrain.config import Optim, catalogue, import_path
from mxtrain.config.bounds import FAR, SMALLEST
from mxtrain.core.errors import UsageError, as_user_code
from mxtrain.data import order

MAX_PLOTTED_PARTS = 1000  # of the warm-up, and of what follows, that a picture of the rate is drawn from
HAIR = 1e-9  # what rounding may take from a number that should be whole


class SchedulePoint(NamedTuple):
    """How far a run has come, before an update."""

    progress: float  # from 0 where the warm-up ends to 1 where the run ends
    epoch: float  # since the run began, as in 2.5
    warm_epoch: float  # since the warm-up ended


def constant(now: SchedulePoint) -> float:
    return 1.0


def cosine(now: SchedulePoint, cycles: int, decay: float, floor: float) -> float:
    """Half a wave down to `floor`, `cycles` times, each beginning at `decay` of the one before."""
    cycle = min(int(now.progress * cycles + HAIR), cycles - 1)
    return _down(now.progress * cycles - cycle, max(decay**cycle, floor), floor)


def linear(now: SchedulePoint, floor: float) -> float:
    return floor + (1.0 - floor) * (1.0 - now.progress)


def poly(now: SchedulePoint, power: float, floor: float) -> float:
    return linear(now._replace(progress=1.0 - (1.0 - now.progress) ** power), floor)


def sigmoid(now: SchedulePoint, steepness: float, middle: float, floor: float) -> float:
    """A logistic curve, stretched so that it goes from 1 to `floor`."""
    first, last, here = (1.0 / (1.0 + math.exp(steepness * (at - middle))) for at in (0.0, 1.0, now.progress))
    return floor + (1.0 - floor) * (here - last) / (first - last)


def one_cycle(now: SchedulePoint, rise: float, start: float, floor: float) -> float:
    """Up from `start` in the share `rise` of the run, then down to `floor`, each half a cosine wave."""
    if now.progress < rise:
        return _down(1.0 - now.progress / rise, 1.0, start)
    return _down((now.progress - rise) / (1.0 - rise), 1.0, floor)


def step(now: SchedulePoint, every: float, factor: float) -> float:
    return float(factor ** math.floor(now.epoch / every + HAIR))


def multistep(now: SchedulePoint, at: tuple[float, ...], factor: float) -> float:
    return factor ** sum(epoch <= now.epoch + HAIR for epoch in at)


def exp(now: SchedulePoint, factor: float) -> float:
    return float(factor**now.warm_epoch)


def inv(now: SchedulePoint, gamma: float, power: float) -> float:
    return float((1.0 + gamma * now.warm_epoch) ** -power)


def _down(share: float, top: float, floor: float) -> float:
    return floor + (top - floor) * 0.5 * (1.0 + math.cos(math.pi * share))


FUNCTIONS: dict[str, Callable[..., float]] = {
    function.__name__: function
    for function in (constant, cosine, linear, poly, sigmoid, one_cycle, step, multistep, exp, inv)
}


def peak_rate(optim: Optim) -> float:
    """The rate that the schedule's factors multiply; --lr itself, or by the linear rule."""
    return optim.lr * optim.batch_size / optim.lr_base_batch if optim.lr_base_batch else optim.lr


def run_length(optim: Optim, num_samples: int) -> tuple[int, int]:
    """Steps of an epoch, and of the whole run."""
    steps_per_epoch = order.steps_per_epoch(num_samples, optim.batch_size)
    num_steps = optim.epochs * steps_per_epoch
    return steps_per_epoch, min(num_steps, optim.max_steps or num_steps)


def rate_function(optim: Optim, steps_per_epoch: float, num_steps: int) -> Callable[[int], float]:
    """The rate of each update, counted from 0, of a run of `num_steps` updates."""
    name, given = catalogue.schedule(optim)
    factor: Callable[[SchedulePoint], float]
    if name in FUNCTIONS:
        factor = functools.partial(FUNCTIONS[name], **given)
    else:
        own: Callable[[float], Any] = as_user_code(
            f"--schedule {name}", import_path.load_callable("--schedule", name)
        )

        def factor(now: SchedulePoint) -> float:
            return _checked(own(now.progress), name, now.progress)

    highest, num_warmup_steps = peak_rate(optim), warmup_steps(optim, steps_per_epoch)

    def moment(step: int) -> SchedulePoint:
        after = step - num_warmup_steps
        progress = min(after / max(1, num_steps - num_warmup_steps), 1.0)
        return SchedulePoint(progress, step / steps_per_epoch, after / steps_per_epoch)

    def rate(step: int) -> float:
        if step < num_warmup_steps:  # climb to where the schedule begins
            found = highest * factor(moment(num_warmup_steps)) * (step + 1) / (num_warmup_steps + 1)
        else:
            found = highest * factor(moment(step))
        return found if found >= SMALLEST else 0.0

    return rate


def warmup_steps(optim: Optim, steps_per_epoch: float) -> int:
    return round(optim.warmup_epochs * steps_per_epoch)


def plotted_steps(optim: Optim, steps_per_epoch: float, num_steps: int) -> list[int]:
    """Those that draw the rate: all, or of a long run the first and last of equal parts, before the peak and after."""
    peak_step = min(warmup_steps(optim, steps_per_epoch), num_steps)
    found: set[int] = set()
    for begin, end in ((0, peak_step), (peak_step, num_steps)):
        parts = min(MAX_PLOTTED_PARTS, end - begin)
        edges = [begin + (end - begin) * part // parts for part in range(parts + 1)] if parts else []
        found.update(edges[:-1], (edge - 1 for edge in edges[1:]))
    return sorted(found)


def summary(optim: Optim, steps_per_epoch: float, num_steps: int) -> str:
    """What the rate will do, as a line of the plan."""
    rule = f" (--lr {optim.lr:g} x {optim.batch_size} / {optim.lr_base_batch})" if optim.lr_base_batch else ""
    warmup = warmup_steps(optim, steps_per_epoch)
    climb = f"{warmup} steps of warm-up, then " if warmup else ""
    return f"learning rate: peak {peak_rate(optim):g}{rule}, {climb}{optim.schedule} over {num_steps} steps"


def nothing_left_message(optim: Optim, steps_per_epoch: int, step: int) -> str:
    """Which flag keeps a run that has come to `step` from going on."""
    of_epochs = optim.epochs * steps_per_epoch
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
