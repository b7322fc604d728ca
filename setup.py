"""Everything is declared in pyproject.toml, but for the parts in C, which setuptools takes from here alone."""

import platform
from pathlib import Path

from setuptools import Extension, setup

FLAGS = [
    "-O3",
    "-mavx2",
    "-mbmi2",
    "-mpclmul",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-Wall",
    "-Wextra",
]


def part(name, folder, *more):
    """Return a part in C. It is never needed: without a compiler the build goes on without it, and less is fast."""
    return Extension(
        f"mxtrain.native.{name}",
        sources=sorted(str(path) for path in Path(folder).glob("*.c")),
        depends=sorted(str(path) for path in Path(folder).glob("*.h")),
        extra_compile_args=[*FLAGS, *more],
        extra_link_args=list(more),
        libraries=["m"],
        optional=True,
    )


# Operators that MXNet loads, apart: they alone need OpenMP's library.
PARTS = [part("_built", "mxtrain/native"), part("_operators", "mxtrain/native/operators", "-fopenmp")]

setup(ext_modules=PARTS if platform.machine() == "x86_64" else [])
