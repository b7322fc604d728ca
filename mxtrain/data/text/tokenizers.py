"""Tokenizers: from text to ids and back (docs/lm.md).

`bytes` needs no library: ids are the bytes of UTF-8. A `tokenizer.json` is Hugging Face's format, and only their
library turns text into its ids; what bytes an id stands for is read here. `module:callable` is the user's own. A
checkpoint keeps a tokenizer as one text, its *portable* form, so that nothing else is needed to use a net.
"""

from __future__ import annotations

import functools
import hashlib
import json
from pathlib import Path
from typing import Any, Callable, Iterable, NamedTuple, Sequence

import numpy as np

from mxtrain.config.components.import_path import load_callable
from mxtrain.core import regular_files
from mxtrain.core.errors import DataError, UsageError, as_user_code
from mxtrain.data.fields import Array
from mxtrain.data.records.recordio import Ints
from mxtrain.data.text.tokens import TokenFormat

BYTES, BYTES_END = "bytes", 256
BYTE_FORMAT = TokenFormat(BYTES, 257, BYTES_END, "uint16")
FILE_NAME = "tokenizer.json"  # beside the records
WHOLE = "json:"  # begins the portable form of a tokenizer.json, whose content follows
# Of tokens that end a document in files that are in use; the first is the one of those trained here.
END_NAMES = ("<|endoftext|>", "</s>", "<|end_of_text|>", "<|im_end|>", "<eos>", "[SEP]")


class Tokenizer(NamedTuple):
    """The functions between text and ids, and what is known of the ids."""

    name: str  # as .tokens.json names it
    encode: Callable[[str], Sequence[int] | Array]  # to a sequence of whole numbers
    decode: Callable[[Sequence[int]], str] | None
    vocab_size: int | None
    end_token: int | None
    content: str = ""  # of its tokenizer.json, if it has one


# ------------------------------------------------------------------------------------------------------------
# By name


def of_bytes() -> Tokenizer:
    """Return the tokenizer of UTF-8's bytes, with 256 for the end of a document."""
    return Tokenizer(
        BYTES, lambda text: np.frombuffer(text.encode(), np.uint8), _text_of_bytes, 257, BYTES_END
    )


def of_user(name: str, flag: str = "--tokenizer") -> Tokenizer:
    """Return the user's own, a function from text to ids that may have `decode`, `vocab_size` and `end_token`."""
    encode = load_callable(flag, name)
    decode = getattr(encode, "decode", None)
    return Tokenizer(
        name,
        as_user_code(f"{flag} {name}", encode),
        decode and as_user_code(f"{flag} {name}", decode),
        getattr(encode, "vocab_size", None),
        getattr(encode, "end_token", None),
    )


def of_json(content: str, source: str) -> Tokenizer:
    """Return the tokenizer of a tokenizer.json's content; `source` names it in messages."""
    library = _library(source)
    try:
        made = library.Tokenizer.from_str(content)
    except Exception as error:  # the library raises no class of its own
        raise DataError(f"{source}: is no tokenizer.json ({error})") from None
    made.encode_special_tokens = True  # what looks like one in a text is text
    made.no_truncation()
    made.no_padding()
    ends = [made.token_to_id(name) for name in END_NAMES]
    known = [end for end in ends if end is not None]
    return Tokenizer(
        f"{FILE_NAME}#{hashlib.sha256(content.encode()).hexdigest()[:16]}",
        lambda text: made.encode(text, add_special_tokens=False).ids,
        lambda ids: str(made.decode(list(map(int, ids)), skip_special_tokens=False)),
        made.get_vocab_size(),
        known[0] if known else None,
        content,
    )


# ------------------------------------------------------------------------------------------------------------
# Portable


def name_of(portable: str) -> str:
    """Return a portable tokenizer's name for messages."""
    return FILE_NAME if portable.startswith(WHOLE) else portable


def portable(name: str, folder: Path) -> str:
    """Return the portable form of the tokenizer that a .tokens.json in `folder` names."""
    if not is_file(name):
        return name
    path = folder / FILE_NAME
    try:
        content = regular_files.read(path).decode()
    except FileNotFoundError:
        raise DataError(f"{path}: is missing; copy it along with the records, or pack again") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {error}") from None
    if name != f"{FILE_NAME}#{hashlib.sha256(content.encode()).hexdigest()[:16]}":
        raise DataError(
            f"{path}: is not the one that the records beside it were packed with; copy that one here"
        )
    return WHOLE + content  # not compressed: other builds of zlib make other bytes, and resumes compare these


def is_file(name: str) -> bool:
    """Return whether a .tokens.json names a tokenizer.json beside it."""
    return name.startswith(FILE_NAME + "#")


def is_code(portable: str) -> bool:
    """Return whether a portable tokenizer is a user's own, which is imported to be used."""
    return portable != BYTES and not portable.startswith(WHOLE)


def of_portable(text: str) -> Tokenizer:
    """Return a tokenizer from its portable form."""
    if text == BYTES:
        return of_bytes()
    if is_code(text):
        return of_user(text)
    return of_json(_content(text), "the run's tokenizer")


@functools.lru_cache(maxsize=4)
def cached(portable: str) -> Tokenizer:
    """Return a tokenizer from its portable form, the same object again in this process."""
    return of_portable(portable)


def bytes_of_tokens(text: str) -> Ints | None:
    """Return how many bytes of text each id stands for; None where that is not known of a portable tokenizer.

    It is known of bytes, and where tokens are sequences of them, as in GPT-2 and what is trained here.
    """
    if text == BYTES:
        return np.array([1] * 256 + [0])
    if not text.startswith(WHOLE):
        return None
    described = json.loads(_content(text))
    if not _is_of_bytes(described):
        return None
    added = described.get("added_tokens") or []
    special = {token["id"] for token in added if token.get("special")}
    ids = {**described["model"]["vocab"], **{token["content"]: token["id"] for token in added}}
    sizes = np.zeros(max(ids.values()) + 1, np.int64)
    for token, number in ids.items():
        sizes[number] = 0 if number in special else len(token)  # a letter a byte
    return sizes


def _is_of_bytes(described: Any) -> bool:
    """Return whether a tokenizer.json makes letters of bytes, and changes no text before."""
    steps = described.get("pre_tokenizer") or {}
    step_types = [steps.get("type"), *(each.get("type") for each in steps.get("pretokenizers", []))]
    adds_space = any(each.get("add_prefix_space") for each in (steps, *steps.get("pretokenizers", [])))
    is_table = isinstance(described["model"].get("vocab"), dict)
    return is_table and "ByteLevel" in step_types and not adds_space and not described.get("normalizer")


def _content(text: str) -> str:
    return text[len(WHOLE) :]


def _text_of_bytes(ids: Sequence[int]) -> str:
    return bytes(number for number in map(int, ids) if number < BYTES_END).decode(errors="replace")


# ------------------------------------------------------------------------------------------------------------
# Training


def train(texts: Iterable[str], vocabulary: int, flag: str) -> Tokenizer:
    """Return a byte-level BPE tokenizer of `vocabulary` tokens, learnt from an iterator of texts.

    The same texts give the same tokenizer, in whatever number of threads.
    """
    library = _library(flag)
    made = library.Tokenizer(library.models.BPE())
    made.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END_NAMES[0]],
        initial_alphabet=sorted(library.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    made.train_from_iterator(texts, trainer)
    return of_json(made.to_str(), flag)


def _library(source: str) -> Any:
    try:
        import tokenizers
    except ImportError:
        raise UsageError(
            f"{source}: needs the library tokenizers; pip install 'mxtrain[text]' brings it"
        ) from None
    return tokenizers
