"""What fails while the user's own code is loaded is reported with its flag."""

from __future__ import annotations

from typing import Any, Callable

import pytest

from mxtrain.config import Optim
from mxtrain.core.errors import message_of
from mxtrain.data.loading.run_plan import RunLength
from mxtrain.models import losses
from mxtrain.models.nets import zoo
from mxtrain.models.parameters import initializers
from mxtrain.optim import optimizers, schedules

FAIL = "tests.support.user_code.user_failing:fail"


@pytest.mark.parametrize(
    ("flag", "take_up"),
    [
        ("--model", lambda: zoo.build(FAIL, 2)),
        ("--init", lambda: initializers.build(FAIL)),
        ("--loss", lambda: losses.build(FAIL, 0.0, 2)),
        ("--optimizer", lambda: optimizers.build(Optim(optimizer=FAIL))),
        ("--schedule", lambda: schedules.rate_function(Optim(schedule=FAIL), RunLength(10, 100))(0)),
    ],
)
def test_the_error_is_told_with_the_flag(flag: str, take_up: Callable[[], Any]) -> None:
    with pytest.raises(KeyError) as raised:
        take_up()
    assert message_of(raised.value) == f'{flag} {FAIL}: KeyError: "the user\'s own mistake"'
