"""Run many damaged inputs: `python -m tests.fuzz --inputs 100000`, or one again: `python -m tests.fuzz --seed 17`.

The inputs run in a child process, so that a crash of a C library is a failure like any other, and so is a hang: each
input has DEADLINE_SECONDS. A failure is named by its seed, which reproduces it.
"""

from __future__ import annotations

import argparse
import faulthandler
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import IO, Sequence

DEADLINE_SECONDS = 20
MAX_FAILURES = 20
FAILED, END = "failed", "end"
CHILD = (sys.executable, "-u", "-m", "tests.fuzz", "--child")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Damage files, and read them.")
    parser.add_argument("--inputs", type=int, default=2000)
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="only this one, in this process")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.seed is not None:
        return run_here(range(parsed.seed, parsed.seed + 1), verbose=True)
    seeds = range(parsed.start, parsed.start + parsed.inputs)
    return run_here(seeds, verbose=False) if parsed.child else run_in_children(seeds)


def run_in_children(seeds: range, child: Sequence[str] = CHILD) -> int:
    """Run all in a child, and after a crash or a hang the rest in another one; return 1 if any failed."""
    failures: list[str] = []
    num_inputs = len(seeds)
    while seeds and len(failures) < MAX_FAILURES:
        reached, found = _run_child(seeds, child)
        for failure in found:
            print(failure, flush=True)
        failures += found
        seeds = range(reached + 1, seeds.stop)
    print(f"{num_inputs - len(seeds)} damaged inputs, {len(failures)} failures")
    return min(len(failures), 1)


def _run_child(seeds: range, child: Sequence[str]) -> tuple[int, list[str]]:
    """Run a child; return the last seed that it began, and the failures."""
    arguments = ["--start", str(seeds.start), "--inputs", str(len(seeds))]
    # OpenCV and libpng print lines about damaged pictures, which are of use only after a crash.
    with tempfile.TemporaryFile() as noise, tempfile.TemporaryFile() as progress:
        done = subprocess.run(
            [*child, *arguments],
            stdout=progress,
            stderr=noise,
            timeout=60 + DEADLINE_SECONDS * len(seeds),
            check=False,
        )
        lines = _text(progress).splitlines()
        last_lines = _text(noise)[-4000:]
    begun = [int(line.split()[1]) for line in lines if line.startswith("begin ")]
    failures = [line for line in lines if line.startswith(FAILED)]
    if lines and lines[-1] == END:
        return seeds[-1], failures
    if not begun:
        return seeds[-1], [f"no input could be run:\n{last_lines}"]
    how = f"ended by signal {-done.returncode}" if done.returncode < 0 else f"ended with {done.returncode}"
    return begun[-1], [*failures, f"{_again(begun[-1])}: the process {how}:\n{last_lines}"]


def run_here(seeds: range, verbose: bool) -> int:
    """Run the inputs in this process; return 1 if any failed."""
    from tests.fuzz import case

    faulthandler.enable()
    any_failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            print(f"begin {seed}")
            faulthandler.dump_traceback_later(DEADLINE_SECONDS, exit=True)
            try:
                case.run(seed, Path(folder))
            except Exception as error:
                any_failed = 1
                print(f"{_again(seed)}: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
                if verbose:
                    traceback.print_exc()
            faulthandler.cancel_dump_traceback_later()
    print(END)
    return any_failed


def _again(seed: int) -> str:
    return f"{FAILED} by `python -m tests.fuzz --seed {seed}`"


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


if __name__ == "__main__":
    sys.exit(main())
