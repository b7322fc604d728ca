"""A Python program in the place of flags: `mxtrain.fit --kvstore dist_sync --num-workers 2 train.py ARGUMENTS`.

Owns telling the two apart. The flags before the program are for whoever starts it over a cluster; what it trains, the
program says itself, by `fit(...)`.
"""

from __future__ import annotations

import os
import runpy
import sys
from typing import Sequence

SUFFIX = ".py"  # which the value of no flag has


def split(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the flags, and the program with its own arguments, if there is one."""
    place = next(
        (at for at, word in enumerate(words) if word.endswith(SUFFIX) and word[0] != "-"), len(words)
    )
    return tuple(words[:place]), tuple(words[place:])


def run(program: Sequence[str]) -> None:
    """Run the program in this process, as Python would."""
    sys.argv[:] = program
    sys.path[0] = os.path.dirname(os.path.abspath(program[0]))
    runpy.run_path(program[0], run_name="__main__")
