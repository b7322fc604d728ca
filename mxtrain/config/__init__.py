"""A run's description: its schema, which this package exports, YAML, bounds, known names and checks."""

from __future__ import annotations

from mxtrain.config.schema import (
    SECTIONS,
    SYNONYMS,
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
    "SECTIONS",
    "SYNONYMS",
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
