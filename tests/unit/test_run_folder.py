"""What a run that begins anew finds in its folder, and what it does with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mxtrain import config, run_folder


@pytest.mark.parametrize("saved", [["step-00000005"], []])
def test_what_was_saved_is_set_aside_and_what_is_half_written_is_dropped(
    tmp_path: Path, saved: list[str]
) -> None:
    for name in [*saved, ".writing-step-00000010"]:
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    (tmp_path / "metrics.jsonl").write_text("{}\n")
    with run_folder.held(config.parse(["--out", str(tmp_path), "--resume", "never"])):
        assert list((tmp_path / "checkpoints").glob("*")) == []
    aside = {str(path.relative_to(tmp_path)) for path in tmp_path.glob("previous-*/**/*")}
    kept = {"checkpoints", "checkpoints/step-00000005", "metrics.jsonl", "logs"}
    assert aside == ({f"previous-1/{name}" for name in kept} if saved else set())
