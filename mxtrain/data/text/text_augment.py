"""Augmentation of texts: words replaced by synonyms or left out, spans of tokens masked.

A text is its words, each with the spaces before it. Words are changed as text and made into tokens again, one by one;
spans are masked last. What is drawn follows from the sample's generator alone. The names are in
`config/components/augmentations.py`.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, Sequence, Tuple

import numpy as np

from mxtrain.config.components import augmentations
from mxtrain.config.components.component import Spec
from mxtrain.core import plain_text, regular_files
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.records.recordio import Ints
from mxtrain.data.text import tokenizers
from mxtrain.data.text.words import NO_LABEL, token_labels

Synonyms = Dict[str, Tuple[str, ...]]
_BEFORE_A_WORD = re.compile(r"(?<=\S)(?=\s)")


@dataclasses.dataclass(frozen=True)
class TextAugmentation:
    """A `texts.Change` as --augment says it. A picklable value; worker processes read the tokenizer themselves."""

    changes: Sequence[Callable[..., list[str]]]  # of words, each from words and a generator
    masks: Sequence[Callable[..., Any]]  # each from the number of tokens and a generator
    tokenizer: str  # portable
    end_token: int | None
    vocab_size: int
    has_mask: bool  # an id of its own, behind all others; else a masked token is any other one

    def __call__(self, ids: Ints, labels: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Return what a text and its labels become."""
        ids, labels = self.with_other_words(ids, labels, rng)
        return self.masked(ids, rng), labels

    def of_window(self, ids: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Return the tokens of a window with other words, as they are seen and as they are.

        Documents stay apart. More tokens than before are cut off.
        """
        ends = np.flatnonzero(ids == self.end_token) + 1
        parts = [part for part in np.split(ids, ends) if len(part)]
        none = [np.full(len(part), NO_LABEL) for part in parts]
        changed = [self.with_other_words(part, labels, rng)[0] for part, labels in zip(parts, none)]
        own = np.concatenate(changed)[: len(ids)]
        return self.masked(own, rng), own

    def masked(self, ids: Ints, rng: np.random.Generator) -> Ints:
        """Return the tokens with spans of them masked, but for ends of documents."""
        for mask in self.masks:
            is_masked = mask(len(ids), rng) & (ids != self.end_token)
            ids = np.where(is_masked, self._instead(len(ids), rng), ids)
        return ids

    def _instead(self, count: int, rng: np.random.Generator) -> Ints:
        if self.has_mask:
            return np.full(count, self.vocab_size)
        if self.end_token is None:
            return rng.integers(self.vocab_size, size=count)
        drawn = rng.integers(self.vocab_size - 1, size=count)
        return drawn + (drawn >= self.end_token)

    def with_other_words(self, ids: Ints, labels: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Return the tokens, with some of their words replaced or left out, and their labels."""
        return self._with_other_words(ids, labels, rng) if self.changes else (ids, labels)

    def _with_other_words(self, ids: Ints, labels: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        tokenizer = tokenizers.cached(self.tokenizer)
        assert tokenizer.decode is not None  # as `check` has seen
        own = ids[ids != self.end_token]
        starts = np.flatnonzero(labels != NO_LABEL)
        if len(starts) and (starts[0] > 0 or starts[-1] >= len(own)):
            return ids, labels  # these are no labels of words
        if len(starts):
            before = [tokenizer.decode(piece.tolist()) for piece in np.split(own, starts)[1:]]
        else:
            text = tokenizer.decode(own.tolist())
            if not np.array_equal(tokenizer.encode(text), own):  # a window may begin within a letter
                return ids, labels
            before = _BEFORE_A_WORD.split(text)
        after = before
        for change in self.changes:
            after = change(after, rng)
        if after == before:
            return ids, labels
        pieces = [np.asarray(tokenizer.encode(word), np.int64) for word in after]
        if len(starts) and not all(map(len, pieces)):
            return ids, labels  # a word without a token would lose its label
        end = ids[len(own) :]
        changed = np.concatenate([*pieces, end])
        if not len(starts):
            return changed, np.full(len(changed), NO_LABEL)
        places = np.cumsum([0, *map(len, pieces[:-1])])
        return changed, token_labels(places, labels[starts].tolist(), len(changed))


def make_augmentation(
    text: str, description: Mapping[str, Any], has_mask: bool = True
) -> TextAugmentation | None:
    """Return the augmentation of --augment, for a task with this description; None for none."""
    specs = augmentations.parse_of_text(text)
    if not specs:
        return None
    masks = [_function(spec) for spec in specs if augmentations.TEXT_AUGMENTATIONS[spec.name].masks]
    changes = [_function(spec) for spec in specs if not augmentations.TEXT_AUGMENTATIONS[spec.name].masks]
    tokenizer, end_token, size = (description[name] for name in ("tokenizer", "end_token", "vocab_size"))
    return TextAugmentation(changes, masks, tokenizer, end_token, size, has_mask)


def _function(spec: Spec) -> Callable[..., Any]:
    """Return the function of an augmentation, with its numbers and its table."""
    augmentation, numbers = augmentations.TEXT_AUGMENTATIONS[spec.name], dict(spec.hyperparameters)
    if augmentation.reads_table:
        numbers["table"] = read_synonyms(numbers.pop("file"))
    return functools.partial(augmentation.load(), **numbers)


def as_seen(ids: Any, tokenizer: str, vocab_size: int) -> str:
    """Return the text of tokens that are changed, with `[...]` for those that are masked; empty without a text."""
    decode = tokenizers.cached(tokenizer).decode
    if decode is None:
        return ""
    is_masked = np.asarray(ids) >= vocab_size
    pieces = np.split(ids, np.flatnonzero(np.diff(is_masked)) + 1)
    return "".join(
        "[...]" if max(piece, default=0) >= vocab_size else decode(piece.tolist()) for piece in pieces
    )


def check(text: str, tokenizer: str, of_tokens: bool) -> dict[str, str]:
    """Refuse an augmentation that does not fit a data set, and return digests of the tables that it reads."""
    found = {}
    for spec in augmentations.parse_of_text(text):
        augmentation = augmentations.TEXT_AUGMENTATIONS[spec.name]
        if augmentation.splits_entities and of_tokens:
            raise UsageError(f"--augment {spec.name}: would tear entities apart; give synonyms or mask_spans")
        if not augmentation.masks and tokenizers.cached(tokenizer).decode is None:
            raise UsageError(
                f"--augment {spec.name}: the tokenizer {tokenizer} makes no text of its ids; give it `decode`, or "
                "leave that out"
            )
        if augmentation.reads_table:
            table = sorted(read_synonyms(spec.hyperparameters["file"]).items())
            found[spec.name] = hashlib.sha256(repr(table).encode()).hexdigest()[:16]
    return found


def read_synonyms(path: str) -> Synonyms:
    """Return the synonyms of each word, from lines of words with tabs between them, the first of which they replace."""
    if not path:
        raise UsageError("--augment synonyms: give its table, as in synonyms:file=words.tsv,p=0.1")
    try:
        lines = plain_text.split_lines(regular_files.read(Path(path)).decode("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--augment synonyms: {path} cannot be read ({error})") from None
    table: Synonyms = {}
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        word, *others = (cell.strip() for cell in line.split("\t"))
        if not word or not others or not all(others) or any(map(str.isspace, word)):
            raise DataError(
                f"{path}: line {number}: has to be a word, a tab, and a synonym or several with tabs between"
            )
        if word in table:
            raise DataError(f"{path}: line {number}: names '{word}' again; give each word once")
        table[word] = tuple(others)
    if not table:
        raise DataError(f"{path}: holds no synonyms")
    return table


def replaced(words: Sequence[str], rng: np.random.Generator, table: Synonyms, p: float) -> list[str]:
    """Return the words, each of the table's with probability `p` as one of its synonyms.

    A word with a capital that is not in the table is looked up without it, and its synonym gets one.
    """
    return [
        _synonym(word, table, rng) if chosen else word
        for word, chosen in zip(words, rng.random(len(words)) < p)
    ]


def _synonym(word: str, table: Synonyms, rng: np.random.Generator) -> str:
    own = word.strip()
    spaces = word[: len(word) - len(word.lstrip())]
    if own in table:
        return spaces + table[own][rng.integers(len(table[own]))]
    others = table.get(own[:1].lower() + own[1:], ())
    return spaces + _capital(others[rng.integers(len(others))]) if others else word


def _capital(word: str) -> str:
    return word[:1].upper() + word[1:]


def left_out(words: Sequence[str], rng: np.random.Generator, p: float) -> list[str]:
    """Return the words without some, each left out with probability `p`; one at least stays."""
    stays = rng.random(len(words)) >= p
    stays[rng.integers(len(words))] |= not stays.any()
    return [word for word, does in zip(words, stays) if does]


def spans(
    length: int, rng: np.random.Generator, p: float, mean: float
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return which tokens are masked: a share of `p` on average, in spans of geometric lengths with this mean."""
    masked = np.zeros(length, bool)
    wanted = int(p * length + rng.random())
    while masked.sum() < wanted:
        span = min(int(rng.geometric(1 / mean)), wanted - int(masked.sum()))
        start = int(rng.integers(length - span + 1))
        masked[start : start + span] = True
    return masked
