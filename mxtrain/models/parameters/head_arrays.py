"""Arrays of a head as a net has them: whole, or in chunks of classes (`--head-chunk`), whichever a file has.

Owns the names: that of chunk 2 of a layer has its number between the layer and what it is, weight or bias.
"""

from __future__ import annotations

import itertools
import re
from typing import Any, Collection, Mapping

from mxtrain.runtime import mx
from mxtrain.runtime.types import NDArray

CHUNK = re.compile(r"(.+)\.\d+\.(weight|bias)")


def fitted(arrays: Mapping[str, NDArray], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, NDArray]:
    """Return a file's arrays, joined or cut where a net has parameters of these shapes instead."""
    lacking = [name for name in shapes if name not in arrays or arrays[name].shape != shapes[name]]
    result: dict[str, Any] = dict(arrays)
    for name in lacking:
        chunks = _chunks_of(name, arrays)
        if chunks and name not in arrays:  # the net's is whole
            _replace(result, chunks, {name: _whole([arrays[each] for each in chunks])})
    for name in dict.fromkeys(CHUNK.sub(r"\1.\2", each) for each in lacking if CHUNK.fullmatch(each)):
        there, here = _chunks_of(name, arrays), _chunks_of(name, shapes)
        whole = (
            arrays[name] if name in arrays else _whole([arrays[each] for each in there]) if there else None
        )
        ends = [0, *itertools.accumulate(shapes[each][0] for each in here)]
        if whole is not None and len(whole) == ends[-1]:
            cut = {each: whole[start:end] for each, start, end in zip(here, ends, ends[1:])}
            _replace(result, [name, *there], cut)
    return result


def _chunks_of(name: str, names: Collection[str]) -> list[str]:
    """Return the names of a head's chunks, in order; none where it is whole, or is not there."""
    head, _, last = name.rpartition(".")
    numbered = (f"{head}.{number}.{last}" for number in itertools.count())
    return list(itertools.takewhile(lambda each: each in names, numbered))


def _whole(chunks: list[NDArray]) -> NDArray:
    joined: NDArray = mx.nd.concat(*chunks, dim=0)
    return joined


def _replace(arrays: dict[str, NDArray], names: Collection[str], others: Mapping[str, NDArray]) -> None:
    for name in names:
        arrays.pop(name, None)
    arrays.update(others)
