"""A run's description: its schema and parsing, which this package exports, YAML, bounds, known names and checks."""

from __future__ import annotations

from mxtrain.config.flags.parsing import file_of, parse, read
from mxtrain.config.schema import (
    SECTIONS,
    SYNONYMS,
    Data,
    Layout,
    Model,
    Optim,
    Output,
    Run,
    flag_names,
    from_flat,
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
