"""A language model writes on: the command and the function draw the same text, and refuse what they cannot do."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from mxtrain.config import Run
from mxtrain.core.errors import USAGE, UsageError
from mxtrain.fit import fit
from mxtrain.predict import SamplingOptions, predict
from tests.support.commands import Command
from tests.tasks.data import steps


@pytest.fixture(scope="module")
def trained(command: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lm")
    steps.write(folder, 96, 16)
    flags = "--model gpt:layers=1,heads=2,width=32 --window 16 --optimizer adamw --lr 0.01 --epochs 2 --batch-size 16"
    done = command(
        "mxtrain.fit",
        "--task",
        "lm",
        "--train",
        folder / "train.rec",
        "--out",
        folder / "run",
        *flags.split(),
    )
    assert done.returncode == 0, done.stderr
    return folder / "run"


def test_the_command_and_the_function_write_the_same(trained: Path, command: Command) -> None:
    flags = ["--prompt", "3a", "--prompt", "2b", "--max-tokens", "20", "--temperature", "0.8", "--seed", "5"]
    told = command("mxtrain.predict", "--run", trained, *flags, "--json")
    lines = [json.loads(line) for line in told.stdout.splitlines()]
    assert lines == predict(trained, prompts=["3a", "2b"], sampling=SamplingOptions(20, 0.8, seed=5))
    shown = command("mxtrain.predict", "--run", trained, *flags)
    written = "\n".join(f"{each['prompt']}{each['text']}\n" for each in lines)
    # By lines: a text may hold a carriage return, which Python reads from a pipe as a newline, from a file as it is.
    assert shown.stdout.splitlines() == written.splitlines()
    assert lines[0]["text"] != lines[1]["text"] and all(each["num_tokens"] <= 20 for each in lines)


def test_texts_of_a_program_are_learnt(trained: Path, tmp_path: Path) -> None:
    texts = [bytes(steps.document(np.random.default_rng(seed))).decode() for seed in range(40)]
    given = {
        "task": "lm",
        "model": "gpt:layers=1,heads=2,width=32",
        "window": 16,
        "batch_size": 8,
        "epochs": 1,
    }
    ended = fit(Run.of(**given, out=str(tmp_path / "run"), log="none", threads=1), train=texts, val=texts[:9])
    *_, judged = ended.history
    assert {"val_perplexity", "val_bits_per_byte"} <= set(judged)
    (told,) = predict(ended, prompts=["3a"], sampling=SamplingOptions(max_tokens=4))
    assert told["num_tokens"] <= 4
    with pytest.raises(UsageError, match="--prompt: prompts are a list of texts"):
        predict(ended, prompts="3a")
    with pytest.raises(UsageError, match="sample 1 is not UTF-8 text"):
        fit(Run.of(**given, out=str(tmp_path / "other"), log="none"), train=["a", "b\ud800"])
    with pytest.raises(UsageError, match="gives a int for document 0; give texts"):
        fit(Run.of(**given, out=str(tmp_path / "other"), log="none"), train=[1, 2])
    with pytest.raises(UsageError, match=r"gives batches, .*; a language model cuts its windows itself"):
        fit(Run.of(**given, out=str(tmp_path / "other"), log="none"), train=Batches())


class Batches:
    def __len__(self) -> int:
        return 2

    def __iter__(self):
        return iter([(np.zeros((8, 16)), np.zeros((8, 16)))] * 2)


@pytest.mark.slow  # tests/unit/data/text/test_tokenizers.py and test_pack_text.py hold its parts
def test_a_learnt_tokenizer_travels_with_the_checkpoint(tmp_path: Path, command: Command) -> None:
    pytest.importorskip("tokenizers")
    texts = [f"def function_{number}(x):\n    return x + {number} * x  # Ω\n" for number in range(80)]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    data, out = tmp_path / "data", tmp_path / "run"
    packing = ["pack", tmp_path / "texts.jsonl", data, "--split", "0.9", "--tokenizer", "bpe:vocabulary=300"]
    assert command("tools.im2rec_wrapper", *packing).returncode == 0
    sets = ["--train", data / "train.rec", "--val", data / "val.rec", "--out", out]
    flags = "--model gpt:layers=1,heads=2,width=64 --window 16 --optimizer adamw --lr 0.01 --epochs 12 --batch-size 8"
    done = command("mxtrain.fit", "--task", "lm", *sets, *flags.split())
    assert done.returncode == 0 and "bits_per_byte" in done.stderr, done.stderr
    shutil.rmtree(data)
    told = command(
        "mxtrain.predict",
        "--run",
        out,
        "--prompt",
        "def function_",
        "--temperature",
        "0",
        "--max-tokens",
        "40",
    )
    assert "return x + " in told.stdout and told.stdout.endswith("# Ω\n\n"), told.stdout


def test_what_cannot_be_written_is_refused(trained: Path, command: Command) -> None:
    for flags, says in [
        (["--prompt", "a", "--top-p", "2"], "--top-p 2: give a number above 0, up to 1"),
        (["--prompt", "a", "b.png"], "--prompt: leave b.png out"),
        (["--prompt", "a", "--prompt", "b\udcff"], r"--prompt 'b\udcff': is not UTF-8 text"),
        ([], "or --prompt TEXT for a language model"),
    ]:
        done = command("mxtrain.predict", "--run", trained, *flags)
        assert done.returncode == USAGE and says in done.stderr, done.stderr
