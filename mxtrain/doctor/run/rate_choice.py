"""A learning rate from the losses of a range test. Pure.

The losses of single steps are noisy, so all is read off their means over a window around each. The steepest point of
that curve is still chance; the point at which two thirds of the fall to the lowest loss are done lies behind it, far
below the rate that is too large, and is the same within a factor of two for any seed.
"""

from __future__ import annotations

from typing import NamedTuple, Sequence

LEAST, MOST = 1e-6, 10.0
WINDOW = 5  # steps before and after, whose mean counts
DONE = 2 / 3  # of the fall
RISEN = 0.1  # of the fall lost again: the rate is too large from here on
BELOW_RISE = 10.0  # times smaller a rate has to be
HARDLY = 0.1  # of the first loss: a smaller fall says nothing


class RateChoice(NamedTuple):
    """A rate to train with, None where the loss hardly falls, and what it follows from."""

    rate: float | None
    first_loss: float
    lowest_loss: float
    lowest_at: float  # the rate there
    rises_at: float | None  # where the rate is too large; None where no rate was


def rates(num_steps: int) -> list[float]:
    """Return the rates that are tried, each by the same factor above the one before."""
    factor = (MOST / LEAST) ** (1 / (num_steps - 1))
    return [LEAST * factor**step for step in range(num_steps)]


def smoothed(losses: Sequence[float]) -> list[float]:
    """Return the means of losses and their neighbours."""
    windows = (losses[max(0, step - WINDOW) : step + WINDOW + 1] for step in range(len(losses)))
    return [sum(window) / len(window) for window in windows]


def has_diverged(losses: Sequence[float]) -> bool:
    """Return whether all that was learnt, or as much as the first loss, is lost again."""
    means = smoothed(losses)
    first, fall, now = means[0], means[0] - min(means), means[-1]
    return now - min(means) > (fall if fall > HARDLY * abs(first) else abs(first))


def choose(rates: Sequence[float], losses: Sequence[float]) -> RateChoice:
    """Return the rate at DONE of the fall, at most a tenth of the rate from which on the loss rises."""
    means = smoothed(losses)
    first, lowest = means[0], min(means)
    at, fall = means.index(lowest), first - lowest
    rise = next((rate for rate, mean in zip(rates[at:], means[at:]) if mean > lowest + RISEN * fall), None)
    found = RateChoice(None, first, lowest, rates[at], rise)
    if fall <= HARDLY * abs(first):
        return found
    done = next(rate for rate, mean in zip(rates, means) if mean <= first - DONE * fall)
    return found._replace(rate=done if rise is None else min(done, rise / BELOW_RISE))


def in_words(choice: RateChoice) -> str:
    """Return what was seen, in a sentence."""
    losses = f"from {choice.first_loss:.3g} to {choice.lowest_loss:.3g}"
    fall = f"the loss falls {losses}, at a rate of {choice.lowest_at:.2g}"
    rise = "" if choice.rises_at is None else f", and rises from {choice.rises_at:.2g} on"
    return f"{fall}{rise}"


def advice(choice: RateChoice, lr: float, times: float = 1.0) -> str:
    """Return the flag to paste, where a run's peak is `times` its --lr, as --lr-base-batch says."""
    if choice.rate is None:
        return "no rate: the loss hardly falls; give more --rate-steps, or see --only gradients,overfit"
    return f"--lr {choice.rate / times:.2g}: two thirds of the fall are done there (--lr is {lr:g} now)"
