"""A run folder that somebody else made: commands import what they need of what it names, and the viewers nothing."""

from __future__ import annotations

import json
import shutil
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from mxtrain.core.errors import UsageError
from mxtrain.evaluate import command as evaluate
from mxtrain.evaluate import evaluate as scores
from mxtrain.export import export
from mxtrain.predict import predict
from mxtrain.report.__main__ import main as report

UNNEEDED = ("loss", "metric", "optimizer", "schedule", "init", "augment", "train", "val")


def changed(run: Path, **config: str) -> Path:
    """Put these flags into the checkpoint and the config of a run, as whoever makes a run folder can."""
    for checkpoint in (run / "checkpoints").glob("step-*"):
        state = json.loads((checkpoint / "state.json").read_text())
        state["config"].update(config)
        state["modules"] = {name.partition(":")[0]: str(run.parent) for name in config.values()}
        text = json.dumps(state).encode()
        (checkpoint / "state.json").write_bytes(text)
        manifest = json.loads((checkpoint / "manifest.json").read_text())
        manifest["state.json"] = {"bytes": len(text), "crc32": f"{zlib.crc32(text):08x}"}
        (checkpoint / "manifest.json").write_text(json.dumps(manifest))
    lines = (run / "config.yaml").read_text().splitlines()
    names = [line.partition(":")[0] for line in lines]
    told = [f"{name}: {config[name]}" if name in config else line for name, line in zip(names, lines)]
    (run / "config.yaml").write_text("\n".join(told) + "\n")
    return run


def test_what_a_command_does_not_need_is_not_imported(
    trained_digits: Path, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    for name in UNNEEDED:
        (tmp_path / f"foreign_{name}.py").write_text(
            f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n"
        )
    run = Path(shutil.copytree(trained_digits, tmp_path / "run"))
    changed(run, **{name: f"foreign_{name}:f" for name in UNNEEDED})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert len(predict(run, [digits / "images" / "six" / "0006.png"])) == 1
    assert export(run, to="symbol", val=str(digits / "val.rec"), samples=4).differences.absolute == 0
    evaluate([str(run), "--graph", "--picture", str(tmp_path / "net.html")])
    assert "its state not known" in capsys.readouterr().out
    assert report([str(run)]) == 0 and report([str(run), "--text"]) == 0
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()
    with pytest.raises(UsageError, match="--loss foreign_loss:f"):
        scores(run, val=str(digits / "val.rec"))  # which asks for it
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("flag", ["task", "model", "loss", "metric", "val"])
def test_no_part_of_python_is_taken_for_one_of_a_run(trained_digits: Path, tmp_path: Path, flag: str) -> None:
    run = changed(Path(shutil.copytree(trained_digits, tmp_path / "run")), **{flag: "posix:abort"})
    with pytest.raises(UsageError, match="names posix:abort, which is a part of Python and none of a run"):
        scores(run)
