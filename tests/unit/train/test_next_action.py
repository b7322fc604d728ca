"""The order of events between two steps, case by case."""

from __future__ import annotations

import itertools

import pytest

from mxtrain.train.next_action import Action, next_action

CASES = list(itertools.product([False, True], repeat=4))
FLAGS = ("is_save_due", "is_evaluation_due", "is_finished", "is_stop_requested")


def after(**given: bool) -> Action:
    return next_action(**{name: given.get(name, False) for name in FLAGS})


def test_a_run_trains_where_nothing_else_is_due() -> None:
    assert after() is Action.TRAIN


@pytest.mark.parametrize("case", CASES)
def test_a_checkpoint_that_is_due_comes_before_everything(case: tuple[bool, ...]) -> None:
    action = after(**dict(zip(FLAGS, case)))
    assert (action is Action.SAVE) == case[0]


def test_an_evaluation_comes_before_the_next_step_and_before_the_end() -> None:
    assert after(is_evaluation_due=True) is Action.EVALUATE
    assert after(is_evaluation_due=True, is_finished=True) is Action.EVALUATE
    assert after(is_finished=True) is Action.FINISH


def test_a_stop_request_does_not_wait_for_an_evaluation() -> None:
    assert after(is_stop_requested=True) is Action.STOP
    assert after(is_stop_requested=True, is_evaluation_due=True) is Action.STOP
    assert after(is_stop_requested=True, is_evaluation_due=True, is_finished=True) is Action.STOP


def test_a_finished_run_has_finished_even_if_asked_to_stop() -> None:
    assert after(is_stop_requested=True, is_finished=True) is Action.FINISH


def test_no_step_is_trained_after_the_last_one() -> None:
    assert all(after(**dict(zip(FLAGS, case))) is not Action.TRAIN for case in CASES if case[2])
