"""Names that NumPy has removed since MXNet 1.9.1 and GluonCV were written, put back where they are absent.

Owns what each name means; nothing that NumPy itself still has is changed, so `np.bool` is Python's bool under NumPy 1
and NumPy's own under NumPy 2. What needs more than a name is `mxnet_repairs.py`'s.
"""

from __future__ import annotations

import functools
import logging
import types
from typing import Any, Callable

logger = logging.getLogger(__name__)

# Gone since NumPy 1.24.
BUILTINS: dict[str, Any] = {
    "bool": bool,
    "int": int,
    "float": float,
    "complex": complex,
    "object": object,
    "str": str,
}

# Gone since NumPy 2.0 to 2.4, with what they were another name for.
SYNONYMS = {
    **dict.fromkeys(("Inf", "Infinity", "infty", "PINF"), "inf"),
    **dict.fromkeys(("NAN", "NaN"), "nan"),
    "float_": "float64",
    "complex_": "complex128",
    "string_": "bytes_",
    "unicode_": "str_",
    "alltrue": "all",
    "sometrue": "any",
    "product": "prod",
    "cumproduct": "cumprod",
    "round_": "round",
    "row_stack": "vstack",
    "trapz": "trapezoid",
}
CONSTANTS = {"NINF": float("-inf"), "PZERO": 0.0, "NZERO": -0.0}

# Gone since NumPy 1.20, which left behind functions that refuse; `mxnet.numpy` takes these over.
FINANCIAL = ("fv", "ipmt", "irr", "mirr", "nper", "npv", "pmt", "ppmt", "pv", "rate")


def restore() -> None:
    """Put back each of these names that NumPy lacks."""
    import numpy

    known = vars(numpy)  # not hasattr: NumPy warns when asked for some of these
    wanted: dict[str, Any] = {**BUILTINS, **CONSTANTS}
    wanted.update({name: known[now] for name, now in SYNONYMS.items() if now in known})
    wanted.update({name: functools.partial(function, numpy) for name, function in FUNCTIONS.items()})
    wanted.update({name: _refusal(name) for name in FINANCIAL})
    wanted["compat"] = types.SimpleNamespace(basestring=str, unicode=str, long=int, bytes=bytes)
    for name in wanted:
        if name not in known:
            setattr(numpy, name, wanted[name])
            logger.debug("put back numpy.%s", name)


def _in1d(numpy: Any, first: Any, second: Any, *arguments: Any, **keywords: Any) -> Any:
    return numpy.isin(numpy.ravel(first), second, *arguments, **keywords)


def _msort(numpy: Any, array: Any) -> Any:
    return numpy.sort(array, axis=0)


def _asfarray(numpy: Any, array: Any, dtype: Any = float) -> Any:
    return numpy.asarray(array, dtype if numpy.issubdtype(dtype, numpy.inexact) else float)


FUNCTIONS: dict[str, Callable[..., Any]] = {"in1d": _in1d, "msort": _msort, "asfarray": _asfarray}


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(*arguments: Any, **keywords: Any) -> Any:
        raise RuntimeError(f"numpy.{name} was removed in NumPy 1.20; the package numpy-financial has it")

    refuse.__name__ = name
    return refuse
