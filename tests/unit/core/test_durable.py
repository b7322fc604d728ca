"""Files that cannot be written are named."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from mxtrain.checkpoint import run_folder
from mxtrain.core import durable
from mxtrain.core.errors import OutOfResources


@pytest.mark.parametrize("limit", [0, 5000])
def test_a_file_without_room_is_named_and_stays_as_it_was(tmp_path: Path, limit: int) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("before", encoding="utf-8")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))  # stands for a full disk
    try:
        with pytest.raises(OutOfResources) as refused, run_folder._naming_out(tmp_path):
            durable.replace(path, "x" * 10000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    said = f"{path}: cannot be written (File too large); make room, then the same command resumes"
    assert str(refused.value) == said
    assert [each.read_text(encoding="utf-8") for each in tmp_path.iterdir()] == ["before"]
