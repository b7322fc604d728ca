"""The block that is named where gradients are wrong."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from mxtrain.doctor.net import gradient_fault


class Call(NamedTuple):
    name: str
    class_name: str
    inputs: set[int]
    is_net: bool = False
    value: Any = None


CHAIN = [
    Call("0", "Dense", set()),
    Call("1", "Own", {0}),
    Call("2", "Dense", {1}),
    Call("", "Net", {2}, True),
]


@pytest.mark.parametrize(
    ("last_wrong", "wrong", "named"),
    [
        (3, ["0.weight", "2.weight"], ["the loss"]),
        (0, ["0.weight"], ["1 (Own)"]),
        (1, ["0.weight"], ["2 (Dense)"]),
        (1, ["0.weight", "2.bias"], ["2 (Dense)", "2 (Dense), for its bias"]),
        (2, ["0.weight"], ["what the net does with the output of 2 (Dense)"]),
        (None, ["2.weight", "2.bias"], ["2 (Dense), for its weight and bias"]),
        (None, ["own"], ["the net (Net), for its own"]),
    ],
)
def test_it_is_the_last_one_that_gives_wrong_gradients_and_gets_right_ones(
    last_wrong: int | None, wrong: list[str], named: list[str]
) -> None:
    assert gradient_fault.culprits(CHAIN, last_wrong, wrong) == named
