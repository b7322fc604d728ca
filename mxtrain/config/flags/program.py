"""A Python program in the place of flags: `mxtrain.fit --kvstore dist_sync --num-workers 2 train.py ARGUMENTS`.

Owns telling the two apart. The flags before the program are for whoever starts it over a cluster; what it trains, the
program says itself, by `fit(...)`.
"""

from __future__ import annotations

import functools
import os
import runpy
import sys
from typing import Sequence

from mxtrain.config.flags import fit_parser

SUFFIX = ".py"


def split(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the flags, and the program with its own arguments, if there is one."""
    place, switches = 0, _switches()
    while place < len(words):
        word = words[place]
        if word.endswith(SUFFIX) and word[0] != "-":
            break
        # The next word is the value of a flag, also where it is called as a program is.
        has_value = word.startswith("--") and len(word) > 2 and "=" not in word and word not in switches
        place += 2 if has_value else 1
    return tuple(words[:place]), tuple(words[place:])


@functools.lru_cache(maxsize=None)
def _switches() -> frozenset[str]:
    """Return the flags that need no value."""
    return frozenset(flag.word for flag in fit_parser.flags() if flag.annotation == "bool") | {"--help"}


def run(program: Sequence[str]) -> None:
    """Run the program in this process, as Python would."""
    sys.argv[:] = program
    sys.path[0] = os.path.dirname(os.path.abspath(program[0]))
    runpy.run_path(program[0], run_name="__main__")
