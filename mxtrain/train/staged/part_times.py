"""The time that each part of a net takes, measured: one micro-batch goes through it forwards and backwards, alone."""

from __future__ import annotations

import time
from typing import Sequence

from mxtrain.models.parameters import weights
from mxtrain.models.stages import StagedNet
from mxtrain.runtime import mx
from mxtrain.runtime.types import Device, NDArray

ROUNDS = 2  # the first one plans memory


def measured(net: StagedNet, shape: Sequence[int], device: Device) -> list[float]:
    """Return the seconds of each part of a net, for a micro-batch of this shape.

    Each part is on `device` while it is measured, and on the host before and after. Weights and statistics stay as they
    are.
    """
    seconds = []
    data = mx.nd.zeros(tuple(shape), ctx=device)
    passed = data
    with weights.kept(net.net):
        for number, part in enumerate(net.parts):
            homes = [(each, each.list_ctx()) for each in part.parameters.values()]
            for parameter, _ in homes:
                parameter.reset_ctx(device)
            taken, passed = min(
                (_passes(net, number, passed, data) for _ in range(ROUNDS)), key=lambda each: each[0]
            )
            seconds.append(taken)
            for parameter, contexts in homes:
                parameter.reset_ctx(contexts)
    return seconds


def _passes(net: StagedNet, number: int, passed: NDArray, data: NDArray) -> tuple[float, NDArray]:
    """Return the seconds of a part's passes, and what it hands on; before all that trains none goes back."""
    if number > net.first_trained:
        passed.attach_grad()
    mx.nd.waitall()
    began = time.perf_counter()
    with mx.autograd.record():
        output = net.computed(number, passed, data)
    if number >= net.first_trained:
        output.backward()
    mx.nd.waitall()
    return time.perf_counter() - began, output.detach()
