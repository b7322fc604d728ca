"""Writes docs/flags.md from mxtrain/config/sections/: `python docs/make_flags.py`; a test holds them together."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from mxtrain import config

HEAD = """# Flags of `python -m mxtrain.fit`

Made from `mxtrain/config/sections/` by `python docs/make_flags.py`. Each flag is also a key of a `--config` file, with
underscores (`batch_size: 64`); flags win over the file. What a flag joins may be a list there: `train: [a.rec, b.rec]`.
Names are kept from version to version. Where a flag says `off` or `none` for what is not wanted, it takes the other
word too.
"""

TAIL = """
## config

| flag | default | meaning |
|---|---|---|
| `--config` | | a YAML file of these flags |
| `--print-config` | | print the run as YAML and stop |
"""


def render() -> str:
    parts = [HEAD]
    for name, section in config.SECTIONS.items():
        parts.append(f"\n## {name}\n\n{section.__doc__}\n\n| flag | default | meaning |\n|---|---|---|\n")
        for field in dataclasses.fields(section):
            default = "" if field.default is None or field.default is False else f"`{field.default}`"
            meaning = field.metadata["help"].replace("|", "\\|")
            parts.append(f"| `--{field.name.replace('_', '-')}` | {default} | {meaning} |\n")
    return "".join(parts) + TAIL


if __name__ == "__main__":
    Path(__file__).with_name("flags.md").write_text(render())
