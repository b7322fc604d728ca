"""A run resumes on the data that it began with, or says why not."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mxtrain
from mxtrain import config, native
from mxtrain.checkpoint import directory, resume
from mxtrain.checkpoint.directory import Snapshot
from mxtrain.checkpoint.input_identity import InputIdentity
from mxtrain.core.errors import UsageError
from mxtrain.core.system import kernels
from mxtrain.data.records.record_sets import open_set
from tests.support.data.packed_samples import packed, samples


def run(out: Path, train: Path, *flags: object) -> config.Run:
    return config.parse(["--train", str(train), "--out", str(out), *map(str, flags)])


def identity(train: Path, val: Path | None = None) -> InputIdentity:
    sets = open_set(str(train)), val and open_set(str(val))
    return InputIdentity.of_run(config.parse([]), *sets, {"class_names": ["a", "b", "c"]})


def save(run: config.Run, data: dict[str, Any]) -> Path:
    arrays = {"weight": np.ones(3, np.float32)}
    state = {"config": config.to_flat(run), **data}
    return directory.write(
        Path(run.output.out) / "checkpoints", Snapshot(5, {"weights.params": arrays}, state)
    )


@pytest.mark.parametrize("explicit", [False, True])
def test_another_set_of_equal_size_and_classes_is_refused_by_name(tmp_path: Path, explicit: bool) -> None:
    here, other = packed(tmp_path / "a.rec", samples(0)), packed(tmp_path / "b.rec", samples(1, num_bytes=44))
    path = save(run(tmp_path / "run", here), identity(here).to_dict())
    flags = ["--resume", path] if explicit else []
    with pytest.raises(UsageError) as refused:
        resume.find(run(tmp_path / "run", other, *flags), identity(other))
    said = str(refused.value)
    assert f"--train {other} is not the set that --train {here} was" in said and "\n" not in said
    assert "records of other lengths, records of other content" in said and "other labels" not in said


def test_a_moved_training_set_resumes_without_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    here, there = packed(tmp_path / "a.rec", samples()), packed(tmp_path / "moved" / "b.rec", samples())
    save(run(tmp_path / "run", here, "--val", here), identity(here, here).to_dict())
    found = resume.find(run(tmp_path / "run", there, "--val", there), identity(there, there))
    assert found is not None and caplog.records == []


def test_a_checkpoint_without_fingerprints_resumes_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    here, other = packed(tmp_path / "a.rec", samples(0)), packed(tmp_path / "b.rec", samples(1))
    data = identity(here).to_dict()
    for name in ("training_set", "validation_set"):
        del data[name]
    path = save(run(tmp_path / "run", here), data)
    assert resume.find(run(tmp_path / "run", other), identity(other)) is not None
    assert len(caplog.records) == 1 and str(path) in caplog.text and "--train" in caplog.text


@pytest.mark.parametrize(("seed", "warned"), [(0, False), (1, True)])
def test_validation_sets_are_compared_by_content(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, seed: int, warned: bool
) -> None:
    """Under one path another set may lie by now, and under another path the same."""
    train, val = packed(tmp_path / "a.rec", samples()), packed(tmp_path / "v.rec", samples())
    save(run(tmp_path / "run", train, "--val", val), identity(train, val).to_dict())
    now = packed(tmp_path / ("v.rec" if warned else "w.rec"), samples(seed))
    assert resume.find(run(tmp_path / "run", train, "--val", now), identity(train, now)) is not None
    assert [record.message[:21] for record in caplog.records] == ["scores up to step 5 a"] * warned


def test_a_checkpoint_of_another_cpu_resumes_with_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    here = packed(tmp_path / "a.rec", samples())
    data = identity(here).to_dict()
    save(run(tmp_path / "like", here), {**data, "kernels": {**kernels.used(), **native.kernels()}})
    assert resume.find(run(tmp_path / "like", here), identity(here)) and caplog.messages == []
    save(run(tmp_path / "other", here), {**data, "kernels": {"openblas": "Z80", "onednn": "SSE41"}})
    assert resume.find(run(tmp_path / "other", here), identity(here))
    (said,) = caplog.messages
    assert "was computed with OpenBLAS Z80, oneDNN SSE41, here it is " in said and "\n" not in said


def test_a_checkpoint_of_another_version_resumes_with_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    here = packed(tmp_path / "a.rec", samples())
    data = identity(here).to_dict()
    save(run(tmp_path / "like", here), {**data, "versions": {"mxtrain": mxtrain.__version__}})
    assert resume.find(run(tmp_path / "like", here), identity(here)) and caplog.messages == []
    save(run(tmp_path / "other", here), {**data, "versions": {"mxtrain": "0.0.7"}})
    assert resume.find(run(tmp_path / "other", here), identity(here))
    (said,) = caplog.messages
    assert (
        f"was computed by mxtrain 0.0.7, this is mxtrain {mxtrain.__version__}, " in said and "\n" not in said
    )


@pytest.mark.parametrize(
    ("saved", "now", "said"),
    [
        ({"amp_table": "f00"}, "f00", ""),
        ({"amp_table": "f00"}, "ba7", "by table f00, here --amp bf16 does by table ba7: the curve goes on"),
        ({}, "ba7", "by MXNet's lists, here --amp bf16 does by table ba7: "),
        ({"amp_table": None}, "ba7", "by no table, so nothing, here --amp bf16 does by table ba7: "),
        ({"amp_table": "f00"}, None, "by table f00, here --amp bf16 does by no table, so nothing: "),
    ],
)
def test_a_checkpoint_by_another_table_for_bfloat16_resumes_with_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, saved: dict[str, Any], now: str | None, said: str
) -> None:
    here, flags = packed(tmp_path / "a.rec", samples()), ("--amp", "bf16")
    before = {key: value for key, value in identity(here).to_dict().items() if key != "amp_table"}
    save(run(tmp_path / "run", here, *flags), {**before, **saved})
    assert resume.find(
        run(tmp_path / "run", here, *flags), dataclasses.replace(identity(here), amp_table=now)
    )
    assert len(caplog.messages) == bool(said) and said in caplog.text
    assert all("\n" not in line for line in caplog.messages)
