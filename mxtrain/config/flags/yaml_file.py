"""Reading a --config file into values of the types that flags have.

Owns the differences between YAML and a command line; the flags are `config/sections/`'s.
"""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path
from typing import Any, Mapping, Sequence

from mxtrain.config.flags import typed_text
from mxtrain.core.errors import UsageError, nearest

# Flags whose one string names several things, which a file may give as a list.
JOINED = {
    "train": "files joined by commas",
    "val": "files joined by commas",
    "freeze": "patterns joined by commas",
    "lr_scale": "patterns with factors, joined by commas",
    "log": "sinks joined by commas",
    "metric": "names joined by commas",
    "augment": "names joined by +",
}

# Flags that are read as text though they may be numbers: YAML makes 50 of the size 0x32.
TEXTS = ("image_size",)


def read(path: str, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return {flag: value} of the file at `path`; `defaults` are those of every flag, with underscores."""
    import yaml

    try:
        loader = yaml.SafeLoader(Path(path).read_text(encoding="utf-8"))
        root = loader.get_single_node()
        if root is not None and not isinstance(root, yaml.MappingNode):
            raise UsageError(f"--config {path}: expected lines such as 'batch_size: 64'")
        flags: dict[str, Any] = {}
        for key_node, node in root.value if root else []:
            key = str(loader.construct_object(key_node, deep=True)).replace("-", "_")
            if key not in defaults:
                raise UsageError(f"--config {path}: unknown key '{key}'{nearest(key, defaults)}")
            if key in flags:
                raise UsageError(f"--config {path}: {key} is given twice; give it once")
            if isinstance(node, yaml.SequenceNode) and key in JOINED:
                flags[key] = _joined(path, key, node.value)
                continue
            if not isinstance(node, yaml.ScalarNode):
                raise UsageError(_refuse_collection(path, key, defaults[key]))
            value = loader.construct_object(node)
            flags[key] = as_flag(f"--config {path}", key, value, node.value, defaults[key])
        return flags
    except OSError as error:
        raise UsageError(f"--config {path}: {error.strerror}; give a YAML file of flags") from None
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        raise UsageError(f"--config {path}: not YAML: {' '.join(str(error).split())}") from None


def _joined(path: str, key: str, nodes: Sequence[Any]) -> str:
    """Return a list as the one string that the flag takes."""
    separator = "+" if JOINED[key].endswith("+") else ","
    texts: list[Any] = [node.value for node in nodes]
    for text in texts:
        if not (text and isinstance(text, str)):
            raise UsageError(
                f"--config {path}: {key}: a list of strings, none of them empty; or leave it out"
            )
        if separator in text:
            raise UsageError(
                f"--config {path}: {key}: '{text}' holds a '{separator}', which stands between two; give them as two"
            )
    if not texts:
        raise UsageError(f"--config {path}: {key} is an empty list; give a value or leave the line out")
    return separator.join(texts)


def _refuse_collection(path: str, key: str, default: Any) -> str:
    if key in JOINED:
        return f"--config {path}: {key}: give one string, {JOINED[key]}, or a list of them"
    if isinstance(default, str) or default is None:
        return f"--config {path}: {key}: give one string, and no list"
    return f"--config {path}: {key}: give one value, and no list"


def as_flag(where: str, key: str, value: Any, text: str, default: Any) -> Any:
    """Return a flag's value as its `default` has it; `where` begins the message that refuses another.

    YAML 1.1 makes `value` of `text`: false of off, 750 of 12:30, a string of 1e-3.
    """
    if value is None and default is not None:
        raise UsageError(f"{where}: {key} is empty; give a value or leave the line out")
    if isinstance(default, bool) and not isinstance(value, bool):
        raise UsageError(f"{where}: {key}: expected true or false, got '{text}'")
    if value is not None and (isinstance(default, str) or default is None or key in TEXTS):
        return text
    if isinstance(value, str):  # 1e-3, or a number in quotes
        with contextlib.suppress(argparse.ArgumentTypeError):
            return typed_text.read(type(default).__name__, value)
    return value
