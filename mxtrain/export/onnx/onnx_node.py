"""A node of a net's graph as its translation to ONNX sees it: names, settings and shapes in, nodes of ONNX out.

Shapes are known, but for what the number of samples decides, so that hardly any arithmetic on shapes is left to ONNX.
Owns what translations write with; they are in `onnx_operators.py`, `onnx_layers.py` and `onnx_sequences.py`.
"""

from __future__ import annotations

import ast
import dataclasses
import itertools
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from mxtrain.core.errors import UsageError
from mxtrain.data.fields import Array

UNKNOWN = -1  # an axis of a shape that the number of samples decides
Shape = Sequence[int]


@dataclasses.dataclass(frozen=True)
class ModelParts:
    """The parts of a model so far: nodes, in the order in which they compute, and what makes arrays, by name."""

    onnx: Any
    nodes: list[Any] = dataclasses.field(default_factory=list)
    # Each made when it is asked for: a weight may be in a file.
    arrays: dict[str, Callable[[], Array]] = dataclasses.field(default_factory=dict)
    names: set[str] = dataclasses.field(default_factory=set)  # of nodes


@dataclasses.dataclass(frozen=True)
class Node:
    """An operator of the net, and its pen."""

    operator: str
    name: str
    inputs: Sequence[str]  # what the model calls them; "" for zeros that are as many as the samples
    attributes: Mapping[str, str]
    shapes: Sequence[Shape]  # of the inputs
    output: Shape  # the first
    model: ModelParts

    def write(self, operator: str, inputs: Sequence[str], **settings: Any) -> str:
        """Add a node of ONNX with one output, and return the name of that."""
        return self.write_several(operator, inputs, 1, **settings)[0]

    def write_several(
        self, operator: str, inputs: Sequence[str], num_outputs: int, **settings: Any
    ) -> list[str]:
        """Add a node of ONNX and return the names of its outputs."""
        name = self._free(f"{self.name}/{operator}")
        outputs = [name] if num_outputs == 1 else [f"{name}:{number}" for number in range(num_outputs)]
        self.model.nodes.append(
            self.model.onnx.helper.make_node(operator, inputs, outputs, name=name, **settings)
        )
        self.model.names.add(name)
        return outputs

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        """Add an array to the model and return its name."""
        array = np.asarray(value, dtype)
        return self._made(lambda: array)

    def numbers(self, values: Sequence[int] | int) -> str:
        """Add whole numbers, as shapes and axes are, and return their name."""
        return self.constant(values, np.int64)

    def cast(self, source: str, type_name: str) -> str:
        """Return the name of `source` as another type, such as INT64."""
        return self.write("Cast", [source], to=getattr(self.model.onnx.TensorProto, type_name))

    def reshaped(self, source: str, shape: Shape) -> str:
        """Return the name of `source` in this shape, of which one axis may be unknown."""
        if list(shape).count(UNKNOWN) > 1:
            raise self.refused(
                "several axes of its shape depend on the number of samples; leave --dynamic-batch out"
            )
        if source in self.model.arrays and UNKNOWN not in shape:
            array = self.model.arrays[source]
            return self._made(lambda: array().reshape(shape))
        return self.write("Reshape", [source, self.numbers(list(shape))])

    def transposed(self, source: str, axes: Sequence[int]) -> str:
        """Return the name of `source` with its axes in this order."""
        if source in self.model.arrays:
            array = self.model.arrays[source]
            return self._made(lambda: array().transpose(axes))
        return self.write("Transpose", [source], perm=list(axes))

    def get(self, name: str, default: Any) -> Any:
        """Return a setting as a value of the kind of its default: a number, a truth, a tuple, None or text."""
        text = self.attributes.get(name)
        if text is None or isinstance(default, str):
            return default if text is None else text
        if isinstance(default, bool):
            return text in ("True", "1", "true")
        try:
            value = ast.literal_eval(text)
        except ValueError:  # inf and nan are no literals
            value = float(text)
        if isinstance(default, tuple):
            return tuple(value) if isinstance(value, (tuple, list)) else (value,)
        return value

    def value(self, place: int) -> Array:
        """Return the array that an input is, a weight; UsageError where it is computed."""
        if self.inputs[place] not in self.model.arrays:
            raise self.refused(f"its input {place} is computed, and has to be a weight")
        return self.model.arrays[self.inputs[place]]()

    def known(self, shape: Shape, meaning: str) -> list[int]:
        """Return a shape that does not depend on the number of samples."""
        if UNKNOWN in shape:
            raise self.refused(f"{meaning} depends on the number of samples; leave --dynamic-batch out")
        return list(shape)

    def refused(self, reason: str) -> UsageError:
        """Return the error for what ONNX cannot do."""
        return UsageError(f"ONNX cannot say what layer {self.name} ({self.operator}) does: {reason}")

    def _made(self, array: Callable[[], Array]) -> str:
        name = self._free(f"{self.name}/constant")
        self.model.arrays[name] = array
        return name

    def _free(self, name: str) -> str:
        names = itertools.chain([name], (f"{name}{number}" for number in itertools.count(2)))
        return next(each for each in names if each not in self.model.names and each not in self.model.arrays)


# Writes the node, and returns the name of its output or the names of all of them.
Translation = Callable[[Node], "str | list[str]"]
