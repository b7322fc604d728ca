"""`Run.of(...)`: flags by name in Python, and objects in the place of names."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain import config
from mxtrain.config import Run, program_objects
from mxtrain.config.checks import run_checks
from mxtrain.config.flags import from_python
from mxtrain.config.program_objects import NO_OBJECTS, ProgramObjects
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


TEXT = f"<object of type {__name__}.Thing>"


class Text(str):
    """A text of the user's own type."""


def with_things() -> tuple[Run, ProgramObjects, dict[str, Any]]:
    """A run with objects of each kind, and the values that it was made of."""
    values: dict[str, Any] = {name: Thing() for name in ("model", "optimizer", "schedule", "train")}
    values.update(loss=function, val=None, metric=["auc", Thing(), Text("macro_f1"), Thing()])
    run = Run.of(epochs=np.int64(2), lr=np.float64(0.5), zero_gamma=True, out=Text("runs/a"))
    return (*from_python.with_objects(run, values), values)


def test_a_run_with_objects_is_plain_data() -> None:
    run, _, values = with_things()
    flat = config.to_flat(run)
    assert {type(leaf) for leaf in (*flat.values(), *run.explicit)} == {str, int, float, bool, type(None)}
    named = {**dict.fromkeys(("model", "optimizer", "schedule", "train"), TEXT), "val": None}
    assert {name: flat[name] for name in named} == named and flat["loss"] == f"{__name__}:function"
    assert flat["metric"] == f"auc,{TEXT},macro_f1,{TEXT}"
    written = json.loads(json.dumps(flat))
    assert written == flat and config.from_flat(written) == run == with_things()[0]
    assert pickle.loads(pickle.dumps(run)) == copy.deepcopy(run) == run
    assert f"model: {TEXT}\n" in config.to_yaml(run).replace("'", "")
    config_of_file = "\n".join(config.to_yaml(run).splitlines())
    assert all(str(value) not in config_of_file for value in values.values() if isinstance(value, Thing))


def test_objects_are_found_beside_whatever_copy_of_their_run() -> None:
    run, objects, values = with_things()
    for each in (
        run,
        copy.deepcopy(run),
        pickle.loads(pickle.dumps(run)),
        config.from_flat(config.to_flat(run)),
    ):
        for name in ("model", "optimizer", "schedule", "train"):
            assert objects.require(f"--{name}", config.to_flat(each)[name]) is values[name]
        assert objects.require("--metric", TEXT, 1) is values["metric"][1]
        assert objects.require("--metric", TEXT, 3) is values["metric"][3]
        run_checks.check_description(each, objects)
    assert copy.deepcopy(objects) is objects is copy.copy(objects)


def test_a_text_without_its_object_says_how_to_give_it_again() -> None:
    run, objects, values = with_things()
    message = f"--train {TEXT}: was an object of a Python program, which no file keeps; give it again, as train=..., to"
    with pytest.raises(UsageError, match=message):
        run_checks.check_description(run)
    with pytest.raises(UsageError, match=message):
        run_checks.check_description(run, pickle.loads(pickle.dumps(objects)))  # in another process
    fewer, _ = from_python.with_objects(run, dict.fromkeys(("train",), "a.rec"))
    without_second = objects.replaced_by({"metric": ["auc", values["metric"][1]]})
    with pytest.raises(UsageError, match=f"--metric {TEXT}: was an object"):
        run_checks.check_description(fewer, without_second)
    with pytest.raises(UsageError, match=f"--model {TEXT}: was an object .* as net=..., to"):
        NO_OBJECTS.require("--model", TEXT)
    other = objects.replaced_by({"model": object()})  # of another type than the text says
    with pytest.raises(UsageError, match=f"--model {TEXT}: was an object"):
        other.require("--model", TEXT)


def test_values_replace_objects_of_the_same_flags() -> None:
    _, objects, values = with_things()
    other = Thing()
    replaced = objects.replaced_by({"model": other, "metric": "auc", "train": None})
    assert replaced.require("--model", TEXT) is other
    assert replaced.require("--train", TEXT) is values["train"] is replaced.require("--calibrate", TEXT)
    assert replaced.get("--metric", TEXT, 1) is None and objects.get("--metric", TEXT, 1) is not None


def test_what_has_no_name_of_its_own_is_an_object() -> None:
    for nameless in (lambda: None, type("Local", (), {}), Thing().__init__):
        assert program_objects.is_object(program_objects.name_of(nameless))
