"""The table of Pythons: its lines are kept, read back and made anew one by one. Nothing is installed here."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Dict, List, Tuple

import pytest

from benchmarks.harness.processes import Failed
from benchmarks.pythons import __main__ as pythons
from benchmarks.pythons import debian, fresh, table
from benchmarks.pythons.parts import PARTS
from benchmarks.pythons.rows import ROWS, Row

Run = Callable[..., Tuple[int, Dict[Row, List[str]]]]
GREEN = ["ok"] * len(PARTS)


def line(row: Row, outcomes: list[str] = GREEN) -> list[str]:
    return table.line(row, [f"{row.python}.7", f"{row.numpy}.4.1", "4.11.0"], outcomes)


def installed(row: Row, folder: Path) -> fresh.Installed:
    def python(*words: str) -> str:
        if words == ("source/benchmarks/pythons/parts.py", "loader"):
            raise Failed("a | last one")
        return f"{row.python}.9 {row.numpy}.8 5.0.0"

    return fresh.Installed(python, "source")


def not_installed(row: Row, folder: Path) -> fresh.Installed:
    raise Failed("not done in 1800 s")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command, with a file that has a green line of all rows but the first."""
    file = tmp_path / "pythons.md"
    file.write_text(table.page({row: line(row) for row in ROWS[1:]}))
    monkeypatch.setattr(fresh, "interpreter", lambda version: f"/usr/bin/python{version}")
    for machine in (fresh, debian):
        monkeypatch.setattr(machine, "install", installed)

    def run(*flags: str) -> tuple[int, dict[Row, list[str]]]:
        monkeypatch.setattr("sys.argv", ["pythons", "--write", str(file), *flags])
        return pythons.main(), table.read(file)

    return run


def test_a_file_gives_its_lines_back_but_those_of_rows_that_are_no_more(tmp_path: Path) -> None:
    lines = {row: line(row) for row in ROWS}
    text = table.page(lines)
    (tmp_path / "page.md").write_text(text.replace("3.8.7", "3.7.7"))
    assert len(set(ROWS)) == len(ROWS)
    assert table.read(tmp_path / "page.md") == {row: lines[row] for row in ROWS if row.python != "3.8"}
    assert table.read(tmp_path / "absent.md") == {}


def test_rows_are_made_anew_and_the_others_stay(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = run("--rows", "1", "3")
    assert code == 1 and set(lines) == set(ROWS)
    for row in (ROWS[0], ROWS[2]):
        assert lines[row][4:-1] == [
            f"{row.python}.9, NumPy {row.numpy}.8",
            "5.0.0",
            *GREEN[:-1],
            "a / last one",
        ]
    assert lines[ROWS[1]] == line(ROWS[1]) and len(capsys.readouterr().out.splitlines()) == 2


def test_what_is_missing_is_what_is_not_there_or_not_green(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(run("--missing")[1]) == list(ROWS)
    monkeypatch.setattr(debian, "install", not_installed)
    code, lines = run("--missing")  # its packer failed
    assert code == 1 and lines[ROWS[0]][6] == "not installed: not done in 1800 s"
    monkeypatch.setattr(
        debian, "install", lambda row, folder: fresh.Installed(lambda *words: "3.14.0 2.5 5", "")
    )
    code, lines = run("--missing")
    assert code == 0 and all(map(table.is_green, lines.values()))
    assert run("--missing") == (0, lines)


def test_a_row_without_its_python_is_left_out_and_said(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fresh, "interpreter", lambda version: None)
    last = len(ROWS)
    code, lines = run("--rows", str(last))
    assert code == 0 and lines[ROWS[-1]] == line(ROWS[-1])
    assert "left out, there is no Python 3.8" in capsys.readouterr().out
