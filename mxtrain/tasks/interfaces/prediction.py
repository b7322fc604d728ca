"""Predictions of samples without labels: what a task may have beside its two halves (docs/adr/0021)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Protocol, runtime_checkable

from mxtrain.data.fields import Array

if TYPE_CHECKING:
    from mxtrain.runtime.types import NDArray, NDArrays, Net


@runtime_checkable
class TaskPrediction(Protocol):
    """A task that predicts too: any with these four methods, whatever it inherits."""

    def inputs_of(self, source: object) -> Mapping[str, Any]:
        """Return the values of those fields that the net takes, from a path or a Python value; DataError in words."""

    def answer(self, net: Net, arrays: NDArrays) -> NDArray:
        """Return the net's output for a micro-batch of such inputs, without labels; needs mxnet."""

    def shown(self, output: Array) -> dict[str, Any]:
        """Return what the output of one sample says, for JSON."""

    def in_words(self, shown: Mapping[str, Any]) -> str:
        """Return that in a line for people."""
