"""`Run.of(...)`: flags by name in Python, and objects in the place of names."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.config import Run, python_objects
from mxtrain.config.components import import_path, nets
from mxtrain.config.flags import from_python
from mxtrain.core.errors import UsageError


def test_flags_by_name_are_those_of_the_command() -> None:
    made = Run.of(
        train=["a.rec", Path("b.rec")],
        epochs=np.int64(3),
        lr=1,
        loader_workers=2,
        amp="none",
        zero_gamma=True,
    )
    line = "--train a.rec,b.rec --epochs 3 --lr 1 --loader-workers 2 --amp none --zero-gamma"
    assert made == config.parse(line.split())
    assert type(made.optim.epochs) is int and type(made.optim.lr) is float
    assert Run.of() == Run() and Run.of(val=None) == Run()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"batchsize": 3}, "batchsize: unknown flag; did you mean 'batch_size'"),
        ({"epochs": 2.5}, "epochs: expected a whole number, got 2.5"),
        ({"epochs": True}, "epochs: expected a whole number, got True"),
        ({"epochs": None}, "epochs: expected a whole number, got None"),
        ({"lr": "x"}, "lr: expected a number, got 'x'"),
        ({"zero_gamma": 1}, "zero_gamma: expected True or False, got 1"),
        ({"model": object()}, r"model: expected text, got a object; objects go to fit\(run, net=...\)"),
        ({"freeze": ["a,b"]}, "freeze: expected text, got a list"),
        ({"out": None}, "out: expected text, got None"),
        ({"lr": -1}, "--lr -1.0: give "),
    ],
)
def test_what_no_command_line_takes_is_refused(flags: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Run.of(**flags)


class Thing:
    """An object of the user's."""


def function() -> None:
    """A function of the user's."""


def test_an_object_travels_in_its_run_and_only_its_text_is_written() -> None:
    thing = Thing()
    run = from_python.with_objects(
        Run(), {"model": thing, "loss": function, "val": None, "optimizer": "adam"}
    )
    assert run.model.loss == f"{__name__}:function" and run.optim.optimizer == "adam" and run.data.val is None
    text = f"<object of type {__name__}.Thing>"
    for each in (run, copy.deepcopy(run), config.from_flat(config.to_flat(run)), dataclasses.replace(run)):
        assert each.model.model == text and python_objects.require("--model", each.model.model) is thing
    assert f"model: {text}\n" in config.to_yaml(run).replace("'", "")
    for written in (json.loads(json.dumps(run.model.model)), pickle.loads(pickle.dumps(run)).model.model):
        assert written == text
        with pytest.raises(
            UsageError, match=f"--model {text}: was an object of a Python program.*as net=..., to"
        ):
            import_path.check_name("--model", written, nets.NETS)


def test_what_has_no_name_of_its_own_is_an_object() -> None:
    for nameless in (lambda: None, type("Local", (), {}), Thing().__init__):
        assert python_objects.is_object(python_objects.name_of(nameless))
