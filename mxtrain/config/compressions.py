"""What gradients may be on their way to the servers: `--compress`, read before mxnet loads."""

from __future__ import annotations

from mxtrain.config import spec
from mxtrain.config.spec import Number

COMPRESSIONS: dict[str, dict[str, Number]] = {"none": {}, "2bit": {"threshold": Number(0.5, 1e-9, 1e9)}}


def threshold(text: str) -> float:
    """Of `2bit`; 0 where nothing is compressed."""
    found = spec.parse("--compress", text, COMPRESSIONS)
    return float(found.numbers.get("threshold", 0.0))
