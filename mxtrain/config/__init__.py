"""A run's description: schema, YAML, bounds of its numbers, known names, and what it may not ask for."""

from __future__ import annotations

from mxtrain.config.schema import (
    SAME_WORDS,
    SECTIONS,
    Data,
    Layout,
    Model,
    Optim,
    Output,
    Run,
    file_of,
    flag_names,
    from_flat,
    parse,
    read,
    to_flat,
    to_yaml,
)

__all__ = [
    "SAME_WORDS",
    "SECTIONS",
    "Data",
    "Layout",
    "Model",
    "Optim",
    "Output",
    "Run",
    "file_of",
    "flag_names",
    "from_flat",
    "parse",
    "read",
    "to_flat",
    "to_yaml",
]
