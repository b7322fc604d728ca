"""Metrics that a user might give to --metric."""

import numpy as np


def regret(predictions, targets):
    """How much more the likeliest class was believed than the right one, summed."""
    own = predictions[np.arange(len(targets)), targets.astype(int)]
    return (predictions.max(axis=1) - own).sum()


regret.names, regret.lower_is_better = ("regret",), True


def several(predictions, targets):
    margins = predictions[np.arange(len(targets)), targets.astype(int)] - predictions.max(axis=1)
    return {"best": predictions.max(), "worst": margins.min()}


several.lower_is_better = ("worst",)


def types(predictions, targets):
    return {f"{predictions.dtype} {targets.dtype}": 1}


class Counting:
    """An object: no gathering, a sum."""

    width, names = 1, ("samples",)

    def state(self, output, arrays):
        return [len(arrays["label"])]

    def finish(self, states):
        return {"samples": np.sum(states)}


class KeepsMuch:
    """As a metric of a thousand labels, which needs all answers at the end; 160,000 numbers a sample."""

    width, names = 0, ("kept",)

    def state(self, output, arrays):
        return np.full(160_000 * len(arrays["label"]), 1.0)

    def finish(self, states):
        return {"kept": sum(map(np.sum, states))}


class OwnAccuracy(Counting):
    """Called as one of the task's own."""

    names = ("accuracy",)


def accuracy(predictions, targets):
    """The same, which only an evaluation shows."""
    return 0.125


def failing(predictions, targets):
    return 1 / 0


class FailingState(Counting):
    def state(self, output, arrays):
        return [1 / 0]


def words(predictions, targets):
    return "good"


def nested(predictions, targets):
    return {"a": {"b": 1}}


nothing = 7


def root(predictions, targets):
    return {"root": 0.5}


def no_root(predictions, targets):
    return {"root": np.nan}
