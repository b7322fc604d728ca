"""The table of what pays in bfloat16: times of operators in both types, by the kernels of a CPU and classes of shapes.

Owns the file's form, finding the times that hold on this machine, and the hash by which runs and workers compare them.
mxtrain ships `autocast_costs.json`; `python -m mxtrain.doctor --measure-bf16 FILE` (`doctor/machine/bf16_times.py`)
writes another. What class an operator is of, and what runs narrow, is `models/autocast/operator_times.py`'s and
`models/autocast/autocast.py`'s.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any, Mapping

from mxtrain.core.errors import UsageError
from mxtrain.core.system import kernels

SHIPPED = Path(__file__).with_name("autocast_costs.json")
# Kernels that compute bfloat16 as others do.
SAME_AS = {"AVX512_CORE_VNNI": kernels.AVX512}


@dataclasses.dataclass(frozen=True)
class Times:
    """Times of operators on one machine, forward and backward. A class that is not listed stays float32."""

    products: Mapping[str, Mapping[str, float]]  # GFLOP/s of convolutions and dense layers, by class and type
    elements: Mapping[
        str, Mapping[str, float]
    ]  # nanoseconds an element of other operators, by class and type
    cast: float  # nanoseconds an element, there and its gradient back
    call: float  # nanoseconds of any operator, however small
    onednn: str  # the kernels in use
    digest: str


def of_run(amp: str, path: str, onednn: str | None = None) -> Times | None:
    """Return the times by which `--amp` and `--amp-table` choose on a CPU; None where all stays float32."""
    if amp not in ("bf16", "auto"):
        return None
    return _find(path, kernels.onednn() if onednn is None else onednn)


def digest_of_run(amp: str, path: str) -> str | None:
    """Return the hash that workers and checkpoints compare; None where no table is used."""
    found = of_run(amp, path)
    return found.digest if found else None


def _find(path: str, onednn: str) -> Times | None:
    """Return the times for these kernels of oneDNN in the file at `path`, or in the shipped one.

    The shipped table need not know all kernels; a table that the user gave is refused if it does not.
    """
    by_kernels = _read(Path(path) if path else SHIPPED, bool(path))
    found = by_kernels.get(onednn, by_kernels.get(SAME_AS.get(onednn, onednn)))
    if found is None:
        if path:
            raise UsageError(
                f"--amp-table {path}: has times for {', '.join(by_kernels)}, but this CPU computes with {onednn}; "
                f"measure here with python -m mxtrain.doctor --measure-bf16 FILE, or leave it out"
            )
        return None
    return _parsed(path or SHIPPED.name, found, onednn)


def _read(path: Path, is_users: bool) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))["kernels"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        if not is_users:
            raise
        reason = error.strerror if isinstance(error, OSError) else "no table of times"
        raise UsageError(
            f"--amp-table {path}: {reason}; give a file that python -m mxtrain.doctor --measure-bf16 wrote"
        ) from None


def _parsed(name: str, times_json: Any, onednn: str) -> Times:
    try:
        products, elements = (_pairs(times_json[table]) for table in ("products", "elements"))
        cast, call = float(times_json["cast"]), float(times_json["call"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"--amp-table {name}: not as doctor --measure-bf16 writes it ({error})") from None
    text = json.dumps([products, elements, cast, call], sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return Times(products, elements, cast, call, onednn, digest)


def _pairs(classes: Any) -> dict[str, dict[str, float]]:
    pairs = {
        name: {of_type: float(pair[of_type]) for of_type in ("float32", "bfloat16")}
        for name, pair in classes.items()
    }
    for name, pair in pairs.items():
        if not min(pair.values()) > 0:
            raise ValueError(f"{name} takes no time")
    return pairs
