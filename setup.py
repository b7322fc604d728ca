"""Everything is declared in pyproject.toml, but for the part in C, which setuptools takes from here alone."""

import platform
from pathlib import Path

from setuptools import Extension, setup

# Never needed: without a compiler, or on another machine, the build goes on without it and loading is slower.
native = Extension(
    "mxtrain.native._built",
    sources=sorted(str(path) for path in Path("mxtrain/native").glob("*.c")),
    depends=sorted(str(path) for path in Path("mxtrain/native").glob("*.h")),
    extra_compile_args=[
        "-O3",
        "-mavx2",
        "-mbmi2",
        "-mpclmul",
        "-fopenmp",
        "-ffp-contract=off",
        "-fno-math-errno",
        "-fno-trapping-math",
        "-Wall",
        "-Wextra",
    ],
    extra_link_args=["-fopenmp"],
    libraries=["m"],
    optional=True,
)

setup(ext_modules=[native] if platform.machine() == "x86_64" else [])
