"""How nets are compiled in tests of the engine: as in a run."""

from __future__ import annotations

from typing import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def compiling() -> Iterator[None]:
    """Have MXNet compile nets as `fit` does; a test of the library is a program's process, in which it does not."""
    from mxtrain.train.net import build_net

    with build_net.compiling("off"):
        yield
