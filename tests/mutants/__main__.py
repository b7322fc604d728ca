"""Shows what the tests prove: breaks one promise at a time in a copy of this checkout, and runs the tests meant for it.

    python -m tests.mutants [--only NAME ...] [--check]

A mutant is killed where a test fails, by an assertion or by a deadline. Where no test ran, where the mutated module
cannot be imported, or where nothing but a fixture or an import failed, the mutant is invalid and proves nothing. Exit
code 1 where any survives or is invalid.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Iterator, NamedTuple, Sequence

from tests.mutants.catalog import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]
LEAST_SECONDS = 180.0  # for a selection under a mutant; a test by itself has pytest's timeout
IMPORT_SECONDS = 60.0
GOODBYE_SECONDS = 15.0  # for pytest to end what its tests have started
BROKEN = ("ImportError", "ModuleNotFoundError", "NameError", "SyntaxError")  # no behaviour of a test


class Result(NamedTuple):
    """What became of a selection: `verdict` is passed, failed, late or invalid."""

    verdict: str
    evidence: str  # the test that failed, or why it is invalid
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[mutant.name for mutant in MUTANTS])
    parser.add_argument("--check", action="store_true", help="only see that each edit still has its place")
    arguments = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if not arguments.only or mutant.name in arguments.only]
    lost = [problem for problem in map(misplaced, chosen) if problem]
    print("\n".join(lost), end="\n" if lost else "")
    if arguments.check or lost:
        return bool(lost)
    with copied() as copy:
        return run(chosen, copy)


def run(mutants: Sequence[Mutant], copy: Path) -> int:
    """Try each and say what became of it; 1 where any did what it should not."""
    unmutated: dict[tuple[str, ...], Result] = {}
    is_wrong = False
    for mutant in mutants:
        if mutant.tests not in unmutated:
            unmutated[mutant.tests] = selected(mutant.tests, copy, seconds=600.0)
        outcome, is_right = outcome_of(mutant, unmutated[mutant.tests], copy)
        is_wrong |= not is_right
        print(f"{mutant.name}: {outcome}", flush=True)
    return int(is_wrong)


def outcome_of(mutant: Mutant, before: Result, copy: Path) -> tuple[str, bool]:
    """In words what became of a mutant whose tests came to `before` without it, and whether it is as it should be."""
    if before.verdict != "passed":
        return f"invalid, its tests fail without it ({before.verdict}: {before.evidence})", False
    with mutated(mutant, copy):
        problem = import_problem(mutant.file, copy)
        if problem:
            return f"invalid, {mutant.file} cannot be imported: {problem}", False
        after = selected(mutant.tests, copy, max(LEAST_SECONDS, 4 * before.seconds))
    if after.verdict == "passed":
        return "survived", False
    if after.verdict == "invalid":
        return f"invalid, {after.evidence}", False
    how = "killed" if after.verdict == "failed" else "killed by a deadline"
    return f"{how} in {after.seconds:.0f} s by {after.evidence}", True


def misplaced(mutant: Mutant) -> str:
    """Why the edit cannot be made, where it cannot."""
    path = ROOT / mutant.file
    if not path.is_file():
        return f"{mutant.name}: there is no {mutant.file}"
    missing = [test for test in mutant.tests if not (ROOT / test.split("::")[0]).is_file()]
    if missing:
        return f"{mutant.name}: there is no {missing[0]}"
    count = path.read_text(encoding="utf-8").count(mutant.before)
    return "" if count == 1 else f"{mutant.name}: its text stands {count} times in {mutant.file}"


@contextlib.contextmanager
def copied() -> Iterator[Path]:
    """A copy of the checkout with an environment of its own, in which every process imports the copy's mxtrain."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder).resolve() / "checkout"
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        built = [str(path.relative_to(ROOT)) for path in (ROOT / "mxtrain").rglob("*.so")]
        for name in [*filter(None, listed.stdout.decode().split("\0")), *built]:
            if (ROOT / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, copy / name)
        venv.create(copy / ".venv", with_pip=False, symlinks=True)
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        packages = copy / ".venv" / "lib" / version / "site-packages"
        (packages / "copy.pth").write_text(f"{copy}\n{sysconfig.get_paths()['purelib']}\n")
        found = imported("mxtrain", copy)
        assert found.returncode == 0 and found.stdout.strip().startswith(f"{copy}/"), found
        print(f"mutants of {found.stdout.strip()}", flush=True)
        yield copy


@contextlib.contextmanager
def mutated(mutant: Mutant, copy: Path) -> Iterator[None]:
    """The block in which the copy has the wrong edit."""
    path = copy / mutant.file
    text = path.read_text(encoding="utf-8")
    assert text.count(mutant.before) == 1
    cached = Path(importlib.util.cache_from_source(str(path)))
    try:
        path.write_text(text.replace(mutant.before, mutant.after), encoding="utf-8")
        cached.unlink(missing_ok=True)  # Python compares seconds and lengths, which may be equal
        yield
    finally:
        path.write_text(text, encoding="utf-8")
        cached.unlink(missing_ok=True)


def import_problem(file: str, copy: Path) -> str:
    """Why the module cannot be imported; empty where it can."""
    found = imported(".".join(Path(file).with_suffix("").parts), copy)
    return found.stderr.strip().splitlines()[-1] if found.returncode else ""


def imported(module: str, copy: Path) -> subprocess.CompletedProcess[str]:
    """The module imported in a process of the copy's environment, which prints where it is."""
    return subprocess.run(
        [python(copy), "-c", f"import {module} as module; print(module.__file__)"],
        cwd="/",
        env=environment(),
        capture_output=True,
        text=True,
        timeout=IMPORT_SECONDS,
    )


def selected(tests: Sequence[str], copy: Path, seconds: float) -> Result:
    """Run these tests in the copy until one fails, for so many seconds at most."""
    report = copy.parent / "report.xml"
    report.unlink(missing_ok=True)
    line = [python(copy), "-m", "pytest", "-x", "-p", "no:cacheprovider", f"--junitxml={report}", *tests]
    started = time.monotonic()
    with (copy.parent / "output").open("w+b") as output:
        pytest = subprocess.Popen(
            line, cwd=copy, env=environment(), stdout=output, stderr=output, start_new_session=True
        )
        try:
            code: int | None = pytest.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            end(pytest)
        output.seek(0)
        last = (output.read().decode(errors="replace").strip().splitlines() or [""])[-1]
    spent = time.monotonic() - started
    if code is None:
        return Result("late", f"no end in {seconds:.0f} s", spent)
    return Result(*understood(code, report, last), spent)


def understood(code: int, report: Path, last: str) -> tuple[str, str]:
    """The verdict on a run of pytest that ended with `code` and this report, and what to tell of it."""
    cases = list(xml.parse(report).iter("testcase")) if report.exists() else []
    ran = [case for case in cases if case.find("skipped") is None]
    failed = [case for case in ran if case.find("failure") is not None]
    if not ran or code not in (0, 1):
        return "invalid", f"no test ran ({last})" if not ran else last
    if not failed:
        return (
            ("passed", "")
            if code == 0
            else ("invalid", f"no test failed, only what comes before it ({last})")
        )
    failure = failed[0].find("failure")
    message = "" if failure is None else failure.get("message", "")
    name = f"{failed[0].get('classname')}.{failed[0].get('name')}"
    if message.startswith(BROKEN):
        return "invalid", f"{name} failed by {message.splitlines()[0]}"
    is_late = "Timeout (>" in message or "TimeoutExpired" in message
    return ("late" if is_late else "failed"), name


def end(pytest: subprocess.Popen[bytes]) -> None:
    """Let it clean up after itself if it still runs, then end what is left of its session's first group."""
    if pytest.poll() is None:
        pytest.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            pytest.wait(GOODBYE_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pytest.pid, signal.SIGKILL)
    pytest.wait()


def python(copy: Path) -> str:
    return str(copy / ".venv" / "bin" / "python")


def environment() -> dict[str, str]:
    """The caller's, but for what would lead back to the checkout."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}


if __name__ == "__main__":
    raise SystemExit(main())
