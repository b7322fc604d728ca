"""Text after a prompt: in pieces and whole, with letters of several bytes, up to an end."""

from __future__ import annotations

import pytest

from mxtrain import config
from mxtrain.core.errors import UsageError
from mxtrain.inference import text_generation
from mxtrain.inference.text_generation import SamplingOptions
from mxtrain.models.nets import generate
from mxtrain.tasks.classification import Classification
from mxtrain.tasks.lm import LanguageModel

TASK = LanguageModel(
    config.parse(["--task", "lm"]),
    {"tokenizer": "bytes", "vocab_size": 257, "end_token": 256, "window": 8},
)


@pytest.fixture
def drawn(monkeypatch):
    """Have these tokens drawn, and return what was asked for them."""
    asked = []

    def tokens_after(prompt, net, length, context, sampling, rng):
        asked.append((prompt, length, sampling, rng.random()))
        return iter([*"aΩb".encode(), 256, 99])

    monkeypatch.setattr(generate, "tokens_after", tokens_after)
    return asked


def test_a_text_comes_in_whole_letters_and_ends(drawn):
    pieces = []
    options = SamplingOptions(max_tokens=9, temperature=0.5, top_k=3, top_p=0.9)
    found = list(
        text_generation.write(TASK, None, None, ["é", ""], options, lambda *each: pieces.append(each))
    )
    assert [each["text"] for each in found] == ["aΩb", "aΩb"]
    assert found[0] == {"prompt": "é", "text": "aΩb", "num_tokens": 4, "has_ended": True}
    assert [piece for number, piece in pieces if number == 1 and piece] == ["a", "Ω", "b"]
    (prompt, length, sampling, first), (_, _, _, other) = drawn
    assert (prompt, length, sampling) == ([256, *"é".encode()], 8, generate.Sampling(0.5, 3, 0.9))
    assert first != other


def test_a_text_that_is_cut_says_so(drawn):
    pieces = []
    (found,) = text_generation.write(
        TASK, None, None, [""], SamplingOptions(max_tokens=2), lambda *each: pieces.append(each[1])
    )
    assert found == {"prompt": "", "text": "a\ufffd", "num_tokens": 2, "has_ended": False}
    assert "".join(pieces) == "a\ufffd"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (SamplingOptions(max_tokens=0), "--max-tokens 0: give 1 or more"),
        (SamplingOptions(temperature=-1), "--temperature -1: give 0"),
        (SamplingOptions(temperature=float("nan")), "--temperature nan: give 0"),
        (SamplingOptions(top_p=0), "--top-p 0: give a number above 0"),
        (SamplingOptions(top_k=-1), "--top-k -1: give 0"),
        (SamplingOptions(seed=-1), "--seed -1: give 0"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(options, says):
    with pytest.raises(UsageError, match=says):
        options.check()


def test_a_prompt_is_for_language_models():
    task = Classification.numbered(config.parse([]), 3)
    with pytest.raises(UsageError, match="the task of runs/a is classification; a prompt is for --task lm"):
        text_generation.language_model(task, "runs/a")
