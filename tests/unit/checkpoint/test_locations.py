"""Files and modules of a run folder are found from any working folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Iterator

import pytest

from mxtrain import config
from mxtrain.checkpoint import locations
from mxtrain.config.components import import_path
from mxtrain.core.errors import UsageError


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder where the run is made, as the current one; what is imported is forgotten again."""
    known = set(sys.modules)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    yield tmp_path / "here"
    for name in set(sys.modules) - known:
        del sys.modules[name]


def test_every_path_is_absolute_and_reads_back_the_same(here: Path) -> None:
    flags = (
        "--train a.rec,b/train-*.rec --val v.rec --pretrained w.params --teacher ../teacher --cache-dir /c "
        "--resume runs/a/checkpoints/step-1 --out runs/b"
    )
    run = locations.absolute(config.parse(flags.split()))
    assert run.data.train == f"{here}/a.rec,{here}/b/train-*.rec"
    assert (run.data.val, run.data.cache_dir) == (f"{here}/v.rec", "/c")
    assert (run.model.pretrained, run.model.teacher) == (f"{here}/w.params", f"{here.parent}/teacher")
    assert (run.output.out, run.output.resume) == (f"{here}/runs/b", f"{here}/runs/a/checkpoints/step-1")
    (here / "run.yaml").write_text(config.to_yaml(run))
    assert config.read(here / "run.yaml") == run == locations.absolute(run)


def test_import_paths_stay_as_they_are(here: Path) -> None:
    given = config.parse(["--train", "own.data:train", "--resume", "never", "--out", "/o"])
    assert locations.absolute(given) == given
    assert locations.absolute(config.Run()).data.val is None


@pytest.mark.parametrize("name", ["a,b", "a:b", "a[b]"])
def test_paths_stay_in_a_folder_whose_name_reads_as_a_pattern(
    here: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (here / name).mkdir()
    monkeypatch.chdir(here / name)
    run = locations.absolute(config.parse(["--train", "a.rec", "--out", "o"]))
    assert (run.data.train, run.output.out) == ("a.rec", f"{here}/{name}/o")


def write(folder: Path, word: str) -> None:
    (folder / "parts_of_own").mkdir(parents=True)
    (folder / "parts_of_own" / "__init__.py").write_text("")
    (folder / "parts_of_own" / "nets.py").write_text(f"def make():\n    return {word!r}\n")


def checkpoint(folder: Path, here: Path) -> tuple[Path, dict[str, Any]]:
    run = config.parse(["--model", "parts_of_own.nets:make", "--loss", "focal:gamma=2", "--train", "a.rec"])
    return folder / "checkpoints" / "step-1", {"modules": locations.modules(run)}


def made() -> Any:
    return import_path.load_callable("--model", "parts_of_own.nets:make")()


def test_a_module_is_found_where_it_was_before_another_of_its_name(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(here, "ours")
    found = checkpoint(tmp_path / "run", here)
    assert found[1]["modules"] == {"parts_of_own": str(here)}
    write(tmp_path / "elsewhere", "theirs")
    monkeypatch.chdir(tmp_path / "elsewhere")
    sys.path_importer_cache.clear()
    sys.path[:] = [entry for entry in sys.path if entry != str(here)]
    locations.make_importable(found, "parts_of_own.nets:make")
    assert made() == "ours"


def test_the_modules_of_a_teacher_come_after_the_runs_own(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(here, "the teacher's")
    found = checkpoint(tmp_path / "run", here)
    write(tmp_path / "elsewhere", "the run's")
    monkeypatch.chdir(tmp_path / "elsewhere")
    sys.path[:] = [entry for entry in sys.path if entry != str(here)]
    locations.make_importable(found, "parts_of_own.nets:make", last=True)
    assert made() == "the run's"


def test_a_missing_module_is_refused(here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(here, "ours")
    found = checkpoint(tmp_path / "run", here)
    here.rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    sys.path_importer_cache.clear()
    with pytest.raises(
        UsageError, match=f"parts_of_own.nets:make from a module in {here}, which has it no more"
    ):
        locations.make_importable(found, "parts_of_own.nets:make")
    monkeypatch.chdir(tmp_path / "moved")
    locations.make_importable(found, "parts_of_own.nets:make")
    assert made() == "ours"


def test_a_run_folder_brings_no_code_along(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have come from somebody else."""
    write(here / "run", "an attack")
    found = here / "run" / "checkpoints" / "step-1", {"modules": {"parts_of_own": str(here / "run")}}
    before = list(sys.path)
    with pytest.raises(UsageError, match="is the run's own, from which no code is taken"):
        locations.make_importable(found, "parts_of_own.nets:make")
    assert [entry for entry in sys.path if entry not in (*before, str(here))] == []


def test_a_folder_that_others_can_write_to_brings_no_code(here: Path) -> None:
    shared = here / "shared"
    write(shared, "an attack")
    shared.chmod(0o777)
    found = here / "run" / "checkpoints" / "step-1", {"modules": {"parts_of_own": str(shared)}}
    with pytest.raises(UsageError, match="which others can write to, so that no code is taken"):
        locations.make_importable(found, "parts_of_own.nets:make")
    assert str(shared) not in sys.path
    shared.chmod(0o755)
    locations.make_importable(found, "parts_of_own.nets:make")
    assert str(shared) in sys.path


@pytest.mark.parametrize("modules", [{}, None, ["parts_of_own"], {"parts_of_own": 3}, {"other": "/"}])
def test_checkpoints_of_old_and_odd_ones_change_nothing(here: Path, modules: Any) -> None:
    import_path.search_working_folder()
    before = list(sys.path)
    state = {} if modules is None else {"modules": modules}
    locations.make_importable((here / "checkpoints" / "step-1", state), "parts_of_own.nets:make")
    assert sys.path == before


def test_installed_modules_are_not_recorded(here: Path) -> None:
    run = config.parse(["--model", "gluoncv.model_zoo:x", "--loss", "json:loads", "--train", "mxtrain.x:y"])
    assert locations.modules(run) == {}


@pytest.mark.parametrize(
    "name", ["os:abort", "posix:abort", "sys:exit", "subprocess:getoutput", "idlelib.idle:x"]
)
def test_python_itself_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=f"names {name}, which is a part of Python"):
        locations.refuse_of_python(tmp_path, name)


@pytest.mark.parametrize(
    "name", ["", "small_cnn", "focal:gamma=2", "numpy:zeros", "mxtrain.fit:fit", "missing:f"]
)
def test_what_is_no_part_of_python_is_not(tmp_path: Path, name: str) -> None:
    locations.refuse_of_python(tmp_path, name)


def test_a_module_of_ones_own_may_be_called_as_one_of_pythons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "turtledemo.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    locations.refuse_of_python(tmp_path, "turtledemo:net")
