"""Texts change while training: words for their synonyms, words left out, spans of tokens masked."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.text import text_augment, tokenizers
from mxtrain.data.text.words import token_labels, tokens_of_words

MASK = 257
BYTES = {"tokenizer": "bytes", "end_token": 256, "vocab_size": 257}


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "words.tsv"
    path.write_text("good\tfine\tnice\nfilm\tmotion picture\n")
    return path


def changed(augment, text, seed=0):
    found = text_augment.make_augmentation(augment, BYTES)
    found = pickle.loads(pickle.dumps(found))  # as worker processes get it
    ids = np.array([*text.encode(), 256])
    return found(ids, np.full(len(ids), -1), rng(seed))


def text_of(ids):
    return tokenizers.of_bytes().decode(ids.tolist())


def test_words_become_synonyms(table):
    ids, labels = changed(f"synonyms:file={table},p=1", "A  good film,\nno Good  one ")
    assert text_of(ids) in {
        f"A  {one} film,\nno {two}  one " for one in ("fine", "nice") for two in ("Fine", "Nice")
    }
    assert ids[-1] == 256 and len(labels) == len(ids) and set(labels) == {-1}
    some = {text_of(changed(f"synonyms:file={table},p=0.5", "good good good", seed)[0]) for seed in range(30)}
    assert len(some) > 10 and "good good good" in some
    again = [changed(f"synonyms:file={table},p=0.5", "good good good", 3)[0].tolist() for _ in range(2)]
    assert again[0] == again[1]


def test_labels_stay_with_their_words(table):
    found = tokens_of_words(["good", "film", "x"], tokenizers.of_bytes().encode)
    ids = np.append(found.ids, 256)
    augmentation = text_augment.make_augmentation(f"synonyms:file={table},p=1", BYTES)
    ids, labels = augmentation(ids, token_labels(found.starts, [2, 0, 1], len(ids)), rng())
    words = text_of(ids).split(" ", 1)
    assert words[0] in ("fine", "nice") and words[1] == "motion picture x"
    places = np.flatnonzero(labels != -1)
    assert labels[places].tolist() == [2, 0, 1]
    assert places.tolist() == [0, 4, 4 + len(" motion picture")]


def test_words_are_left_out():
    ids, _ = changed("drop_words:p=0.5", "one two three four five six")
    left = text_of(ids).split()
    assert 1 <= len(left) < 6 and ids[-1] == 256
    assert len(text_of(changed("drop_words:p=0.9", "one", 1)[0])) > 0


def test_spans_are_masked():
    text = "x" * 200
    ids, _ = changed("mask_spans:p=0.2,mean=4", text)
    masked = ids == MASK
    assert masked.sum() in (40, 41) and ids[-1] == 256
    begins = np.flatnonzero(np.diff(masked.astype(int)) == 1)
    assert 3 < len(begins) < 25  # and not each for itself
    shares = [text_augment.spans(7, rng(seed), p=0.15, mean=3.0).mean() for seed in range(300)]
    assert np.mean(shares) == pytest.approx(0.15, abs=0.02)


def test_all_of_them_together(table):
    ids, labels = changed(
        f"synonyms:file={table},p=1+drop_words:p=0.2+mask_spans:p=0.3", "a good film is a good film"
    )
    assert (ids == MASK).any() and len(ids) == len(labels)
    assert text_augment.make_augmentation("none", BYTES) is None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("good\n", "line 1: has to be"),
        ("a\tb\n\tc\n", "line 2: has to be"),
        ("a\tb\na\tc\n", "names 'a' again"),
        ("two words\tb\n", "line 1: has to be"),
        ("", "holds no synonyms"),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(tmp_path, content, words):
    path = tmp_path / "words.tsv"
    path.write_text(content)
    with pytest.raises(DataError, match=words):
        text_augment.read_synonyms(str(path))


def test_what_does_not_fit_is_refused(tmp_path, table):
    for augment, words in (
        ("synonyms", "give its table"),
        (f"synonyms:file={tmp_path}/none.tsv", "cannot be read"),
        ("flip", "unknown name"),
        ("mask_spans:p=2", "give 0 to 0.9"),
        ("module:callable", "no module"),
    ):
        with pytest.raises(UsageError, match=words):
            text_augment.check(augment, "bytes", of_tokens=False)
    with pytest.raises(UsageError, match="would tear entities apart"):
        text_augment.check("drop_words", "bytes", of_tokens=True)
    told = text_augment.check(f"synonyms:file={table}", "bytes", of_tokens=True)
    table.write_text("good\tother\n")
    assert told != text_augment.check(f"synonyms:file={table}", "bytes", of_tokens=True)


def test_windows_of_a_language_model(table):
    """Targets are what is, and inputs what is seen; documents stay apart, whole words or not."""
    augmentation = text_augment.make_augmentation(
        f"synonyms:file={table},p=1+mask_spans:p=0.3,mean=2", BYTES, has_mask=False
    )
    part_of_a_letter = "\u00e9".encode()[1:]
    ids = np.array([256, *b"good", 256, *b"good one", 256, *part_of_a_letter, *b" a good film", 256])
    seen, own = augmentation.of_window(ids, rng())
    assert len(seen) == len(own) <= len(ids) and seen.max() <= 256
    assert (seen == 256).tolist() == (own == 256).tolist() and (own == 256).sum() == 4
    assert 0 < (seen != own).sum() <= 0.4 * len(own)
    documents = bytes(np.where(own == 256, 0, own).astype(np.uint8)).split(b"\0")
    assert documents[1] in (b"fine", b"nice") and documents[2][4:] == b" one"
    assert documents[3] == part_of_a_letter + b" a good film"
    assert augmentation.of_window(ids[:2], rng())[1].tolist() == ids[:2].tolist()
