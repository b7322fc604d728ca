"""Names that are imported when somebody takes them, as those of `mxtrain.export`."""

from __future__ import annotations

import pytest

from mxtrain.core.late_names import late_names
from tests.support.processes.fresh_python import answer


def test_a_name_comes_from_its_own_module_and_another_is_none() -> None:
    found = late_names("a_package", {"sqrt": "math"})
    assert found("sqrt")(4.0) == 2.0
    with pytest.raises(AttributeError, match="module 'a_package' has no attribute 'pi'"):
        found("pi")


def test_the_functions_of_commands_are_found_and_nothing_is_loaded_for_them_before() -> None:
    code = (
        "import sys, mxtrain.convert, mxtrain.export, mxtrain.fit, mxtrain.models, mxtrain.tune\n"
        "early = sorted({'numpy', 'mxnet', 'mxtrain.export.__main__', 'mxtrain.tune.from_python'} & set(sys.modules))\n"
        "from mxtrain.convert import convert; from mxtrain.export import export, options\n"
        "from mxtrain.fit import Result, fit; from mxtrain.tune import Search, tune\n"
        "answer = [early, [each.__name__ for each in (convert, export, options, Result, fit, Search, tune)],\n"
        "          'mxnet' in sys.modules]"
    )
    names = ["convert", "export", "mxtrain.export.options", "Result", "fit", "Search", "tune"]
    assert answer(code) == [[], names, False]
