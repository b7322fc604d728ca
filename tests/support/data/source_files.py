"""Files of a source to pack."""

from __future__ import annotations


def touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(path.name.encode())


def write(path, text):
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path
