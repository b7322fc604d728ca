"""The optimizers of tables: they move rows by the sums of their gradients, each row for itself.

A row that is not used does not move, whatever its optimizer remembers of it. In float32, each operation rounded once.
"""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from mxtrain import native
from mxtrain.tables.options import OPTIMIZERS, TableOptions


def move(
    options: TableOptions,
    rows: Any,
    states: Sequence[Any],
    slots: Any,
    gradients: Any,
    rate: float,
    factor: float = 1.0,
) -> None:
    """Move the rows of `slots`, each of which is there once, by `factor` times their gradients.

    `states` are the arrays of `options.state_shapes`.
    """
    if not len(slots):
        return
    rate = rate * options.rate_factor
    if native.move_rows is None:
        _move(options, rows, states, slots, np.float32(factor) * gradients, np.float32(rate))
        return
    wide = [each for each in states if each.ndim == 2]
    single = [each for each in states if each.ndim == 1]
    first, second = [*wide, None, None][:2]
    one, other = [*single, None, None][:2]
    kind = OPTIMIZERS.index(options.optimizer)
    numbers = (options.momentum, options.beta1, options.beta2, options.epsilon, options.decay)
    native.move_rows(kind, rows, first, second, one, other, slots, gradients, factor, rate, *numbers)


def _move(
    options: TableOptions, rows: Any, states: Sequence[Any], slots: Any, gradients: Any, rate: Any
) -> None:
    """Move them by NumPy, to the same bits as the part in C."""
    of_slots, epsilon = rows[slots], np.float32(options.epsilon)
    if options.decay:
        of_slots = of_slots - (rate * np.float32(options.decay)) * of_slots
    if options.optimizer == "sgd":
        change = rate * gradients
    elif options.optimizer == "momentum":
        states[0][slots] = means = np.float32(options.momentum) * states[0][slots] + gradients
        change = rate * means
    elif options.optimizer == "adagrad":
        states[0][slots] = squares = states[0][slots] + gradients * gradients
        change = rate * gradients / (np.sqrt(squares) + epsilon)
    elif options.optimizer == "adagrad_row":
        squares = np.zeros(len(slots), np.float32)
        for column in gradients.T:
            squares += column * column
        states[0][slots] = squares = states[0][slots] + squares / np.float32(options.width)
        change = (rate / (np.sqrt(squares) + epsilon))[:, None] * gradients
    else:
        change = _adam(options, states, slots, gradients, rate)
    rows[slots] = of_slots - change


def _adam(options: TableOptions, states: Sequence[Any], slots: Any, gradients: Any, rate: Any) -> Any:
    beta1, beta2, one = np.float32(options.beta1), np.float32(options.beta2), np.float32(1)
    first, second, single, other = states
    first[slots] = means = beta1 * first[slots] + (one - beta1) * gradients
    second[slots] = squares = beta2 * second[slots] + (one - beta2) * (gradients * gradients)
    # 1 less the powers of beta, which correct means that began with zero
    single[slots] = of_means = beta1 * single[slots] + (one - beta1)
    other[slots] = of_squares = beta2 * other[slots] + (one - beta2)
    root = np.sqrt(squares / of_squares[:, None]) + np.float32(options.epsilon)
    return rate * (means / of_means[:, None]) / root
