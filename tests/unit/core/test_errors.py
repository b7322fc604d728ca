"""Output that cannot be written is reported in one line; exit codes get through."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mxtrain.core.errors import message_of

FULL = Path("/dev/full")
pytestmark = pytest.mark.skipif(not FULL.exists(), reason="only Linux has it")

PRINTS = "from mxtrain.core.errors import one_line; raise SystemExit(one_line('it', lambda: {}))"
WRITES = "open('/dev/full', 'w', buffering=1).write('x\\n')"


def ended(code: list[str], unbuffered: str, out: Path) -> tuple[int, str]:
    """The exit code and what stood on stderr, with this standard output."""
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with out.open("w") as stdout:
        done = subprocess.run(
            [sys.executable, *code],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            env=environment,
        )
    return done.returncode, done.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("it", ["-c", PRINTS.format("print('x')")]),
        ("it", ["-c", PRINTS.format("print('x', flush=True)")]),
        ("it", ["-c", PRINTS.format("[print('x'), exit(0)]")]),
        ("mxtrain.fit", ["-m", "mxtrain.fit", "--print-config"]),
    ],
)
def test_standard_output_without_room_is_named(program: str, code: list[str], unbuffered: str) -> None:
    line = f"{program}: standard output: No space left on device; make room and give the same command again\n"
    assert ended(code, unbuffered, FULL) == (2, line)


def test_what_causes_itself_is_told_all_the_same() -> None:
    error = ValueError("a\nb")
    error.__cause__ = error
    assert message_of(error) == "ValueError: a b"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_file_without_room_is_not_taken_for_it(tmp_path: Path, unbuffered: str) -> None:
    code, line = ended(["-c", PRINTS.format(f"[print('x'), {WRITES}]")], unbuffered, tmp_path / "out")
    # Python 3.13 also says which file it could not close.
    assert (code, line.splitlines()[-1].partition(": No space")[0]) == (2, "it: a file of this run")
    assert (tmp_path / "out").read_text() == "x\n"


def test_too_few_files_are_named_with_the_cure(tmp_path: Path) -> None:
    opens = "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3)), open('/dev/null')"
    code, line = ended(["-c", "import resource; " + PRINTS.format(f"[{opens}]")], "", tmp_path / "out")
    assert code == 2
    assert line == "it: /dev/null: Too many open files; raise ulimit -n and give the same command again\n"


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [("'no such place'", 1, "no such place\n"), ("None", 0, ""), ("0", 0, ""), ("7", 7, "")],
)
def test_a_node_ends_as_python_would(given: str, code: int, said: str) -> None:
    line = f"import sys; from mxtrain import fit; fit._as_node(lambda: sys.exit({given}))"
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (code, said)
