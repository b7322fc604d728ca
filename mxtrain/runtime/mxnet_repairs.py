"""Repairs in an mxnet 1.9.1 that has been imported: what it asks of Python, NumPy and SciPy and newer ones refuse.

Owns changes to mxnet's own functions and to GluonCV's copies, each for one reason. Those for NumPy 2 are made under
NumPy 2 alone. Takes mxnet as an argument and imports it nowhere.
"""

from __future__ import annotations

import sys
import types
from typing import Any

METRIC_SUMS = ("sum_metric", "global_sum_metric")


def repair(mxnet: types.ModuleType) -> None:
    """Apply every repair that the installed NumPy needs."""
    import numpy

    _keep_csr_quiet()
    _take_scalars_from_any_shape(mxnet)
    for function in (mxnet.recordio.pack, mxnet.recordio.pack_img):
        _rename(function, tostring="tobytes")  # gone since NumPy 2.3
    if int(numpy.__version__.partition(".")[0]) >= 2:
        _write_scalars_plainly(mxnet)
        _sum_metrics_in_float64(mxnet)


def fork_workers(loaders: types.ModuleType) -> None:
    """Have a module of DataLoaders fork its workers, as it did before Python 3.14; a chosen "spawn" stays.

    A worker that Python starts afresh, as is its way since then, imports mxnet without this process's door.
    """
    import multiprocessing

    if multiprocessing.get_all_start_methods()[0] != "fork":
        vars(loaders)["multiprocessing"] = _Forking("multiprocessing")


class _Forking(types.ModuleType):
    """Python's multiprocessing with `fork` for its default."""

    def __getattr__(self, name: str) -> Any:
        import multiprocessing

        method = multiprocessing.get_start_method(allow_none=True)
        context = multiprocessing.get_context("spawn" if method == "spawn" else "fork")
        return getattr(context if hasattr(context, name) else multiprocessing, name)


def _keep_csr_quiet() -> None:
    """Put `csr_matrix` where mxnet looks for it at every array it makes: SciPy has moved it, and warns each time."""
    sparse = sys.modules.get("scipy.sparse")
    if sparse is not None:
        if "csr" not in vars(sparse):
            vars(sparse)["csr"] = types.ModuleType("scipy.sparse.csr")
        vars(vars(sparse)["csr"])["csr_matrix"] = sparse.csr_matrix


def _write_scalars_plainly(mxnet: types.ModuleType) -> None:
    """Write NumPy's numbers as numbers in what goes to MXNet as text: NumPy 2 has np.int64(2) inside a tuple.

    NumPy's own switch for that holds for one thread only, and would change what users see.
    """
    for name in ("mxnet._ctypes.ndarray", "mxnet._ctypes.symbol", "mxnet.io.io"):
        vars(sys.modules[name])["str"] = plain_text  # they use str for nothing else
    vars(mxnet.symbol.symbol)["_plain_text"] = plain_text
    _rename(mxnet.symbol.symbol.var, str="_plain_text")


def plain_text(value: Any) -> str:
    """Return str(value), as NumPy 1 would have it for tuples and lists of NumPy's numbers."""
    if type(value) not in (tuple, list) or "np." not in str(value):
        return str(value)
    inner = ", ".join(plain_text(each) if _is_plain(each) else repr(each) for each in value)
    if isinstance(value, list):
        return f"[{inner}]"
    return f"({inner},)" if len(value) == 1 else f"({inner})"


def _is_plain(value: Any) -> bool:
    import numpy

    return isinstance(value, (numpy.generic, tuple, list))


def _sum_metrics_in_float64(mxnet: types.ModuleType) -> None:
    """Keep the sums of metrics in float64: with NumPy 2 a Python float plus a float32 is a float32."""
    import numpy

    def set_attribute(self: Any, name: str, value: Any) -> None:
        is_sum = name in METRIC_SUMS and type(value) is float
        object.__setattr__(self, name, numpy.float64(value) if is_sum else value)

    mxnet.metric.EvalMetric.__setattr__ = set_attribute


def _take_scalars_from_any_shape(mxnet: types.ModuleType) -> None:
    """Have `asscalar` return a number: of several axes it left an array, which NumPy 2.5 does not convert."""

    def asscalar(self: Any) -> Any:
        if self.size != 1:
            raise ValueError("The current array is not a scalar")
        return self.asnumpy().reshape(-1)[0]

    mxnet.nd.NDArray.asscalar = asscalar


def _rename(function: types.FunctionType, **names: str) -> None:
    """Have a function use other names: of methods, or of what its module holds."""
    code = function.__code__
    function.__code__ = code.replace(co_names=tuple(names.get(name, name) for name in code.co_names))
