"""--augment left out: a run learns with what suits its pictures, keeps it and says it; others go on as they began."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from mxtrain.config import Run
from mxtrain.core.errors import UsageError
from mxtrain.fit import Result, StopTraining, fit
from tests.support.nets import training_steps
from tests.support.user_code import user_data

FLAGS = {"image_size": 16, "batch_size": 16, "lr": 0.05, "epochs": 1, "log": "none", "threads": 1}


def trained(out: Path, stops_at: int = 0, **flags: Any) -> Result:
    def stop(record: dict[str, Any]) -> None:
        if record["step"] == stops_at:
            raise StopTraining

    run = Run.of(**{**FLAGS, "out": out, **flags})
    return fit(run, train=user_data.dataset(), net=training_steps.quick_net(2), on_step=stop)


def augment_of(out: Path) -> Any:
    return yaml.safe_load((out / "config.yaml").read_text())["augment"]


def losses(result: Result) -> list[float]:
    return [each["loss"] for each in result.history]


def test_a_new_run_keeps_what_was_chosen_and_says_it_in_a_line(tmp_path: Path) -> None:
    result = trained(tmp_path / "chosen")
    log = (tmp_path / "chosen" / "logs" / "fit.log").read_text()
    assert augment_of(tmp_path / "chosen") == "pad_crop:pad=2"
    assert log.count("--augment pad_crop:pad=2: pictures are small (24 pixels)") == 1
    assert losses(result) == losses(trained(tmp_path / "given", augment="pad_crop:pad=2"))
    assert "pictures are small" not in (tmp_path / "given" / "logs" / "fit.log").read_text()


@pytest.mark.parametrize("begun_with", [{}, {"augment": "resized_crop+flip"}])
def test_a_run_goes_on_with_what_it_began_with(begun_with: dict[str, str], tmp_path: Path) -> None:
    """The second is what runs of earlier versions had where the flag was left out."""
    whole = trained(tmp_path / "whole", **begun_with)
    trained(tmp_path / "parts", stops_at=2, **begun_with)
    assert losses(trained(tmp_path / "parts")) == losses(whole)
    assert augment_of(tmp_path / "parts") == augment_of(tmp_path / "whole")
    with pytest.raises(UsageError, match=r"--augment \S+ -> none"):
        trained(tmp_path / "parts", augment="none", epochs=2)
