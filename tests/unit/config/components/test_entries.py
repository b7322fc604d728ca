"""Every component: its code is where it says, and neither help nor checks import it."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from typing import Any, Iterator

import pytest

import mxtrain.config.components as folder
from mxtrain.config.components.component import Component, load


def tables() -> Iterator[tuple[str, Component]]:
    """Yield the components of all kinds, with the module of their kind."""
    for module in pkgutil.iter_modules(folder.__path__):
        for table in vars(importlib.import_module(f"{folder.__name__}.{module.name}")).values():
            if isinstance(table, dict):
                yield from ((module.name, each) for each in table.values() if isinstance(each, Component))


COMPONENTS = {f"{kind}-{each.name}": each for kind, each in tables()}


def test_a_dozen_kinds_declare_themselves() -> None:
    kinds = {each.partition("-")[0] for each in COMPONENTS}
    assert kinds == {
        *("augmentations", "initializers", "losses", "metrics", "nets", "optimizers"),
        *("schedules", "sinks", "stores", "tasks"),
    }


@pytest.mark.parametrize("name", COMPONENTS)
def test_its_help_is_there_and_its_defaults_are_within_its_limits(name: str) -> None:
    component = COMPONENTS[name]
    assert component.help
    for number in component.numbers.values():
        defaults: Any = number.default if isinstance(number.default, tuple) else (number.default,)
        assert all(isinstance(each, str) or number.low <= each <= number.high for each in defaults)


def test_its_code_is_where_it_says() -> None:
    for component in COMPONENTS.values():
        factories = [component.factory, *getattr(component, "factories", {}).values()]
        assert all(
            callable(load(factory)) or hasattr(load(factory), "kept") for factory in factories if factory
        )


def test_checking_a_run_loads_neither_opencv_nor_numpy() -> None:
    program = (
        "import sys; from mxtrain import config; from mxtrain.config.checks import run_checks as checks\n"
        "checks.check_description(config.parse(['--train', 'a.rec', '--augment', 'pad_crop:pad=2+flip']))\n"
        "assert not {'cv2', 'numpy', 'mxnet'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)
