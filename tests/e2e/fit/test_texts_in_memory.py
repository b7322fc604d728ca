"""Texts of a Python program are learnt as their bytes, and judged one by one."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest

from mxtrain.config import Run
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.text import text_files
from mxtrain.fit import fit
from mxtrain.predict import predict
from tests.support.commands import Command
from tests.support.runs import curve, newest
from tests.tasks.data import texts

NET = {
    "model": "bilstm:width=16,hidden=16",
    "window": 32,
    "optimizer": "adam",
    "lr": 0.02,
    "log": "none",
    "threads": 1,
}


def test_a_list_of_texts_is_learnt(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    samples = [texts.order(rng) for _ in range(330)]
    columns = [each["text"] for each in samples], [float(each["label"] == "x first") for each in samples]
    run = Run.of(
        task="sequence_classification", epochs=5, batch_size=16, out=str(tmp_path), weight_decay=0.0, **NET
    )
    train, val = (tuple(column[part] for column in columns) for part in (slice(300), slice(300, None)))
    result = fit(run, train=train, val=val)
    assert result.best["val_accuracy"] > 0.9
    told = predict(result, ["abxcdy", "abycdx"])
    assert [each["classes"][0]["class"] for each in told] == ["1", "0"]


@pytest.mark.slow  # tests/tasks/test_streams.py resumes a stream
def test_a_stream_of_texts_is_learnt_and_resumed_to_the_bit(tmp_path: Path) -> None:
    def stream() -> Iterator[tuple[str, float]]:
        rng = np.random.default_rng(0)
        while True:
            each = texts.order(rng)
            yield each["text"], float(each["label"] == "x first")

    def learnt(name: str, steps: int, val: Any = None, train: Any = stream) -> Path:
        flags = {
            "task": "sequence_classification",
            "epoch_steps": 10,
            "max_steps": steps,
            "schedule": "constant",
        }
        fit(Run.of(**flags, out=str(tmp_path / name), weight_decay=0.0, **NET), train=train, val=val)
        return tmp_path / name

    samples = list(itertools.islice(stream(), 60))
    whole = learnt("whole", 40, val=tuple(map(list, zip(*samples))))
    (*_, scores) = [each for each in curve(whole) if each["kind"] == "eval"]
    assert scores["val_accuracy"] > 0.8
    learnt("half", 20)
    learnt("half", 40)
    assert (newest(tmp_path / "half") / "weights.params").read_bytes() == (
        newest(whole) / "weights.params"
    ).read_bytes()

    def with_another() -> Iterator[tuple[str, float]]:
        yield from itertools.islice(stream(), 1100)
        yield "xy", 2.0

    with pytest.raises(
        DataError, match=r"sample 1100 of the stream: its label is 2, but there are 2 classes"
    ):
        learnt("other", 80, train=with_another)
    with pytest.raises(UsageError, match=r"a language model .* give a list of texts"):
        fit(
            Run.of(task="lm", epoch_steps=2, out=str(tmp_path / "lm"), log="none"),
            train=lambda: iter(["a", "b"]),
        )


def test_texts_on_the_command_line_and_in_files_are_answered_each(tmp_path: Path, command: Command) -> None:
    run = Run.of(task="sequence_classification", epochs=1, out=str(tmp_path / "run"), **NET)
    result = fit(run, train=(["ax", "by", "ay", "bx"], [0, 1, 0, 1]))
    texts_given = ["axy", "b, x", "by"]
    expected = [each["classes"] for each in predict(result, texts_given)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts_given))
    (tmp_path / "b.csv").write_text('id,text\n1,axy\n2,"b, x"\n3,by\n')
    words = [*("--text", "axy", "--text", "b, x", "--text", "by"), "--json", "--top", "2"]
    done = command("mxtrain.predict", tmp_path / "run", tmp_path / "a.jsonl", tmp_path / "b.csv", *words)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    names = [each["input"] for each in answers]
    files = (
        [f"{tmp_path}/a.jsonl:{line}" for line in (1, 2, 3)],
        [f"{tmp_path}/b.csv:{row}" for row in (2, 3, 4)],
    )
    assert names == [*files[0], *files[1], *texts_given]
    for number, answer in enumerate(answers):
        found = {each["class"]: each["probability"] for each in answer["classes"]}
        for each in expected[number % 3]:
            assert found[each["class"]] == pytest.approx(each["probability"], rel=1e-5)
    (tmp_path / "half.jsonl").write_text('{"text": "a"}\n{"text": "b\\ud800"}\n')
    for half, says in (("b\udcff", "the text"), (tmp_path / "half.jsonl", "half.jsonl:2")):
        with pytest.raises(DataError, match=f"{says}: .*is not UTF-8 text"):
            predict(result, [half])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.jsonl", '{"text": "a"}\n{"label": 1}\n', "a.jsonl: line 2: has no `text`"),
        ("a.jsonl", '{"text": "a"}\nb\n', "a.jsonl: line 2: is no JSON"),
        ("a.csv", "id,words\n1,a\n", "has no column called text (it has id, words)"),
        ("a.jsonl", "\n", "holds no text"),
    ],
)
def test_a_file_without_texts_is_refused_by_its_line(
    tmp_path: Path, name: str, content: str, words: str
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError) as refused:
        text_files.texts_in(tmp_path / name)
    assert words in str(refused.value)


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    run = {**NET, "out": str(tmp_path)}
    with pytest.raises(UsageError, match="gives a int as the text of sample 1"):
        fit(Run.of(task="sequence_classification", **run), train=(["a", 3], [0, 1]))
    with pytest.raises(UsageError, match="pack them with --from tagged_text"):
        fit(Run.of(task="token_classification", **run), train=(["a", "b"], [0, 1]))
    with pytest.raises(DataError, match=r"label 0\.5"):
        fit(Run.of(task="sequence_classification", **run), train=(["a", "b"], [0, 0.5]))
