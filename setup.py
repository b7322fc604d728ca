"""Everything is declared in pyproject.toml, but for the parts in C, which setuptools takes from here alone."""

import contextlib
import os
import platform
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

FLAGS = [
    "-O3",
    "-g0",  # Python's own flags ask for what debuggers read, which takes a quarter of the time
    "-mavx2",
    "-mbmi2",
    "-mpclmul",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-Wall",
    "-Wextra",
]


def part(name, folder, files, *more):
    """Return a part in C. It is never needed: without a compiler the build goes on without it, and less is fast."""
    headers = {*Path(folder).glob(f"{files}.h"), *Path("mxtrain/native").glob("*.h")}
    return Extension(
        f"mxtrain.native.{name}",
        sources=sorted(str(path) for path in Path(folder).glob(f"{files}.c")),
        depends=sorted(map(str, headers)),
        include_dirs=[folder],
        extra_compile_args=[*FLAGS, *more],
        extra_link_args=list(more),
        libraries=["m"],
        optional=True,
    )


class AllCores(build_ext):
    """A build in which each core compiles a file: one after the other they take half a minute.

    An editable build takes what `setup.py build_ext --inplace` has built of these sources; while that runs, it waits.
    """

    def run(self):
        with _one_at_a_time():
            super().run()

    def build_extension(self, extension):
        built = Path(self.get_ext_filename(self.get_ext_fullname(extension.name)))
        if self.editable_mode and _is_newer(built, ["setup.py", *extension.sources, *extension.depends]):
            target = self.get_ext_fullpath(extension.name)
            self.mkpath(os.path.dirname(target))
            self.copy_file(str(built), target)
            return
        one_by_one = self.compiler.compile

        def at_once(sources, **options):
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                compiled = pool.map(lambda source: one_by_one([source], **options), sources)
                return [each for objects in compiled for each in objects]

        self.compiler.compile = at_once
        try:
            super().build_extension(extension)
        finally:
            self.compiler.compile = one_by_one


def _is_newer(built, sources):
    return built.exists() and built.stat().st_mtime > max(Path(each).stat().st_mtime for each in sources)


@contextlib.contextmanager
def _one_at_a_time():
    """Hold the build folder's lock; it is given back when the process ends, however it does."""
    if not PARTS:
        yield
        return
    import fcntl

    Path("build").mkdir(exist_ok=True)
    with Path("build", "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# Operators that MXNet loads, apart: they alone need OpenMP's library.
PARTS = [
    part("_built", "mxtrain/native", "*"),
    part("_operators", "mxtrain/native/operators", "**/*", "-fopenmp"),
]

setup(ext_modules=PARTS if platform.machine() == "x86_64" else [], cmdclass={"build_ext": AllCores})
