"""A run's description: its schema and parsing, which this package exports, YAML, bounds, known names and checks."""

from __future__ import annotations

from mxtrain.config.flags.parsing import file_of, parse, read
from mxtrain.config.schema import SECTIONS, SYNONYMS, Run, flag_names, from_flat, to_flat, to_yaml
from mxtrain.config.sections.data import Data
from mxtrain.config.sections.layout import Layout
from mxtrain.config.sections.model import Model
from mxtrain.config.sections.optim import Optim
from mxtrain.config.sections.output import Output

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
