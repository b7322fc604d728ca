"""From packed pictures to a trained net that evaluate and predict can use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mxtrain import native
from mxtrain.config import autocast_costs
from mxtrain.core.errors import USAGE
from mxtrain.core.system import distributions, kernels
from tests.support import runs
from tests.support.amp import ALL_NARROW, BF16, needs_bf16
from tests.support.commands import ROOT, Command
from tests.support.jobs.shapes_run import curve, flags
from tests.support.runs import has_step, records, scores_of, wait_until, warm_started


@pytest.fixture(scope="module")
def finished(shapes: Path, tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    out = tmp_path_factory.mktemp("finished") / "run"
    (out.parent / "began").write_text(str(time.time()))
    done = command("mxtrain.fit", *flags(shapes, out), cold=True)
    assert done.returncode == 0, done.stderr
    assert " at step 16, the best; " in done.stdout and str(out / "checkpoints") in done.stdout
    return out


def test_the_run_folder(finished: Path) -> None:
    assert {path.name for path in finished.iterdir()} == {
        "config.yaml", "environment.json", "metrics.jsonl", "checkpoints", "augmented", "logs", ".lock",
    }  # fmt: skip
    environment = json.loads((finished / "environment.json").read_text())
    assert environment["mxtrain"] and "fit" in " ".join(environment["command"]) and "git" in environment
    assert (
        environment["kernels"] == {**kernels.used(), **native.kernels()} and environment["amp_table"] is None
    )
    assert environment["distributions"] == distributions.installed() and environment["folder"]
    assert environment["command"][1:3] == ["-m", "mxtrain.fit"] and environment["platform"].startswith(
        "Linux"
    )
    assert f"its kernels for {environment['kernels']['openblas']}," in (finished / "logs/fit.log").read_text()


def test_every_step_is_recorded(finished: Path) -> None:
    trained = [record for record in records(finished) if record["kind"] == "train"]
    assert [record["step"] for record in trained] == list(range(1, 17))
    assert all({"step", "epoch", "loss", "lr"} <= record.keys() for record in trained)
    assert [record["epoch"] for record in records(finished) if record["kind"] == "eval"] == [1, 2, 3, 4]


@pytest.mark.alone
def test_the_times_of_all_stages_add_up_to_the_wall_time(finished: Path) -> None:
    found = runs.records(finished, "train", "eval", "event")
    assert found[-1]["event"] == "end"
    total = sum(runs.seconds_of(each) for each in found)
    assert total == pytest.approx(
        found[-1]["time"] - float((finished.parent / "began").read_text()), rel=0.03
    )


def test_it_learns(finished: Path) -> None:
    evaluations = [record for record in records(finished) if record["kind"] == "eval"]
    assert max(record["val_accuracy"] for record in evaluations) == 1.0


def test_the_saved_config_is_the_run(finished: Path, command: Command, tmp_path: Path) -> None:
    done = command("mxtrain.fit", "--config", finished / "config.yaml", "--out", tmp_path / "again")
    assert done.returncode == 0, done.stderr
    assert curve(tmp_path / "again") == curve(finished)


def test_quiet_commands_say_their_last_line(shapes: Path, command: Command, tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = command("mxtrain.fit", *flags(shapes, run), "--log", "console,csv", "--epochs", "1", "--quiet")
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("done: val accuracy")
    assert done.stdout.count("\n") == 1 and (run / "metrics.csv").exists()
    assert "learning rate: peak" in (run / "logs" / "fit.log").read_text()
    done = command("mxtrain.evaluate", "--run", run, "--quiet")
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.count("\n") == 1
    done = command("mxtrain.fit", *flags(shapes, run), "--lr", "0.5", "--quiet")
    assert done.returncode == USAGE and done.stderr.count("\n") == 1 and "--lr" in done.stderr


def test_evaluate(finished: Path, shapes: Path, command: Command) -> None:
    done = command(
        "mxtrain.evaluate", "--run", finished, "--val", shapes / "val.rec", "--checkpoint", "latest", "--json"
    )
    assert done.returncode == 0, done.stderr
    found, last = json.loads(done.stdout), records(finished)[-1]
    assert found["num_samples"] == 16
    assert scores_of(found) == scores_of(last)


def test_predict(finished: Path, shapes: Path, command: Command) -> None:
    images = [shapes / "images" / name / "0.png" for name in ("bright", "dark")]
    done = command("mxtrain.predict", "--run", finished, "--json", "--top", "1", *images)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [each["classes"][0]["class"] for each in found] == ["bright", "dark"]
    assert [len(each["classes"]) for each in found] == [1, 1]


def test_predict_turns_pictures_upright(finished: Path, command: Command, tmp_path: Path) -> None:
    """As `pack` does, whatever the format; and of several pages it says which one it takes."""
    upright = np.random.default_rng(0).integers(0, 256, (24, 24, 3), np.uint8)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(upright).save(tmp_path / "upright.png")
    turned = Image.fromarray(upright).transpose(Image.ROTATE_90)
    turned.save(tmp_path / "turned.png", exif=exif)
    turned.save(tmp_path / "turned.webp", exif=exif, lossless=True)
    turned.save(tmp_path / "turned.tif", exif=exif, save_all=True, append_images=[turned])
    files = [tmp_path / name for name in ("upright.png", "turned.png", "turned.webp", "turned.tif")]
    done = command("mxtrain.predict", "--run", finished, "--json", *files)
    assert done.returncode == 0, done.stderr
    expected, *found = [json.loads(line)["classes"] for line in done.stdout.splitlines()]
    assert found == [expected] * 3
    assert f"{tmp_path / 'turned.tif'}: has 2 pages; page 1 is taken" in done.stderr.splitlines()


def test_predict_names_bad_pictures_and_goes_on(
    finished: Path, shapes: Path, command: Command, tmp_path: Path
) -> None:
    (tmp_path / "text.png").write_text("not a picture")
    (tmp_path / "cut.png").write_bytes((shapes / "images" / "dark" / "1.png").read_bytes()[:200])
    good = [shapes / "images" / name / "0.png" for name in ("bright", "dark")]
    (tmp_path / "empty").mkdir()
    bad = [tmp_path / name for name in ("text.png", "cut.png", "missing.png", "empty")]
    mixed = [bad[0], good[0], *bad[1:], good[1]]
    for more in ([], ["--json"]):
        done = command("mxtrain.predict", "--run", finished, *more, *mixed)
        assert done.returncode == 3 and "Traceback" not in done.stderr
        assert len(done.stdout.splitlines()) == 2
        assert all(str(image) in line for image, line in zip(good, done.stdout.splitlines()))
        *named, count = [line for line in done.stderr.splitlines() if line.startswith("mxtrain.predict: ")]
        assert [line.split(": ")[1] for line in named] == list(map(str, bad))
        assert count == "mxtrain.predict: 4 of 6 inputs could not be read; they are named above"


def test_predict_says_of_one_bad_picture_in_one_line_what_it_is(
    finished: Path, command: Command, tmp_path: Path
) -> None:
    (tmp_path / "text.png").write_text("not a picture")
    done = command("mxtrain.predict", "--run", finished, tmp_path / "text.png")
    assert done.returncode == 3 and done.stdout == ""
    assert "Traceback" not in done.stderr and "of 1 pictures" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"mxtrain.predict: {tmp_path / 'text.png'}: ")


def test_predict_says_what_else_has_the_name_of_a_picture(command: Command, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    for name, words in (("pipe.png", "a named pipe, not a file"), ("a" * 300, "File name too long")):
        done = command("mxtrain.predict", "--run", tmp_path / "none", tmp_path / name)
        assert done.returncode == 3
        assert done.stderr == f"mxtrain.predict: {tmp_path / name}: {words}\n"


def test_predict_asks_no_net_about_files_that_are_not_there(command: Command, tmp_path: Path) -> None:
    done = command("mxtrain.predict", "--run", tmp_path / "none", tmp_path / "a.png", tmp_path / "b.png")
    assert done.returncode == 3
    assert done.stderr == f"mxtrain.predict: {tmp_path / 'a.png'}: no such file\n"


@pytest.mark.slow  # tests/unit/launch/test_terminal.py has a job whose output nobody reads
def test_nobody_listens(finished: Path, shapes: Path, tmp_path: Path) -> None:
    """Closed or broken output streams do not stop a run."""
    for number, streams in enumerate(["2>&- > /dev/full", "2>&1 | head -1"]):
        arguments = " ".join(flags(shapes, tmp_path / str(number))[:-2])
        line = f"{sys.executable} -m mxtrain.fit {arguments} --max-steps 4 {streams}"
        subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, timeout=100)
        assert [record["step"] for record in records(tmp_path / str(number))][:4] == [1, 2, 3, 4]
        assert list((tmp_path / str(number) / "checkpoints").glob("step-00000004")), streams


def test_one_run_a_folder(shapes: Path, tmp_path: Path, command: Command) -> None:
    out = tmp_path / "run"
    with warm_started(*flags(shapes, out), "--epochs", "1000") as run:
        wait_until(lambda: has_step(out, 1), run)
        second = command("mxtrain.fit", *flags(shapes, out))
    assert second.returncode == 2 and "another mxtrain.fit" in second.stderr


def test_never_starts_anew_and_keeps_the_old(
    finished: Path, shapes: Path, tmp_path: Path, command: Command
) -> None:
    out = tmp_path / "run"
    for _ in range(2):
        done = command("mxtrain.fit", *flags(shapes, out), "--resume", "never", "--max-steps", "2")
        assert done.returncode == 0, done.stderr
    assert [record["step"] for record in records(out)] == [1, 2, 2]
    assert curve(out / "previous-1") == curve(out)


def test_a_diverging_run_says_so(shapes: Path, tmp_path: Path, command: Command) -> None:
    wild = ["--optimizer", "sgd", "--lr", "1e12", "--momentum", "0"]
    done = command("mxtrain.fit", *flags(shapes, tmp_path / "run"), *wild)
    assert done.returncode == 4, done.stderr
    assert "--lr" in done.stderr and "Traceback" not in done.stderr


@needs_bf16
def test_mixed_precision_learns_the_same(
    finished: Path, shapes: Path, tmp_path: Path, command: Command
) -> None:
    out = tmp_path / "run"
    done = command("mxtrain.fit", *flags(shapes, out), *BF16.split())
    assert done.returncode == 0, done.stderr
    assert records(out)[0]["loss"] == pytest.approx(records(finished)[0]["loss"], rel=0.05)
    assert records(out)[0]["loss"] != records(finished)[0]["loss"], "bf16 was on"
    table = json.loads((out / "environment.json").read_text())["amp_table"]
    assert table == autocast_costs.digest_of_run("bf16", str(ALL_NARROW))
    assert max(r["val_accuracy"] for r in records(out) if r["kind"] == "eval") == 1.0


@pytest.mark.slow  # tests/engine/optim/test_precision.py has the refusal
@needs_bf16
def test_elsewhere_mixed_precision_is_refused_and_its_runs_can_be_used(
    shapes: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a CPU without AVX-512."""
    out, another = tmp_path / "run", tmp_path / "another"
    line = [*BF16.split(), "--epochs", "1"]
    assert command("mxtrain.fit", *flags(shapes, out), *line).returncode == 0
    monkeypatch.setenv("DNNL_MAX_CPU_ISA", "AVX2")
    for folder in (out, another):
        done = command("mxtrain.fit", *flags(shapes, folder), *line)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
        assert "--amp bf16 needs AVX-512" in done.stderr and "DNNL_MAX_CPU_ISA=AVX2" in done.stderr
    assert not another.exists()
    judged = command("mxtrain.evaluate", "--run", out, "--json")
    assert judged.returncode == 0 and json.loads(judged.stdout)["val_accuracy"] >= 0.5, judged.stderr


def test_a_net_of_ones_own(shapes: Path, tmp_path: Path, command: Command) -> None:
    own = ["--model", "tests.support.nets.user_net:imperative_net"]
    done = command("mxtrain.fit", *flags(shapes, tmp_path / "run"), *own)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("runs imperatively") == 1
    assert max(r["val_accuracy"] for r in records(tmp_path / "run") if r["kind"] == "eval") == 1.0
