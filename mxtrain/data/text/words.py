"""Words and their tokens: which tokens a word has become, and which of them has the word's label.

A text is its words with a space between each two, and a word's tokens are those of the word and the space before it:
what a tokenizer of bytes makes of the text, and one that cuts at spaces first, as most do. The first token of a word
has its label; the others, and the end of the text, have NO_LABEL and count nowhere.
"""

from __future__ import annotations

from typing import Callable, NamedTuple, Sequence

import numpy as np

from mxtrain.data.fields import Array
from mxtrain.data.records.recordio import Ints

NO_LABEL = -1


class WordTokens(NamedTuple):
    """The tokens of a text, without an end token, and the place of each word's first one."""

    ids: Ints
    starts: Ints


def tokens_of_words(words: Sequence[str], encode: Callable[[str], Sequence[int] | Array]) -> WordTokens:
    """Return the tokens of a text in words; ValueError where a word has none."""
    pieces = [
        np.asarray(encode(f" {word}" if number else word), np.int64) for number, word in enumerate(words)
    ]
    for word, piece in zip(words, pieces):
        if not len(piece):
            raise ValueError(f"the word {word!r} has no token")
    lengths = [len(piece) for piece in pieces]
    starts = np.cumsum([0, *lengths[:-1]]) if lengths else np.zeros(0, np.int64)
    return WordTokens(np.concatenate([np.zeros(0, np.int64), *pieces]), starts)


def token_labels(starts: Ints, labels: Sequence[int], num_tokens: int) -> Ints:
    """Return the label of each token."""
    found = np.full(num_tokens, NO_LABEL, np.int64)
    found[starts] = labels
    return found
