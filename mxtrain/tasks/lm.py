"""Language models: the next token, for each token of a window (docs/lm.md, docs/adr/0024).

Owns what windows of tokens mean to training: their loss, its weight, perplexity and bits per byte. Windows are
`data/text/windows.py`'s, the net is `models/nets/gpt.py`'s or the user's.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any, Sequence, cast

import numpy as np

from mxtrain.cluster.worker_group import in_order
from mxtrain.config import Run, batch_plan
from mxtrain.config.checks.bounds import LARGEST_ARRAY
from mxtrain.config.components import augmentations
from mxtrain.config.components import nets as net_names
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.fields import Array, Arrays, Field
from mxtrain.data.interfaces import Dataset, Record
from mxtrain.data.loading.assembly import SampleReader
from mxtrain.data.text import text_augment, texts, tokenizers
from mxtrain.data.text.text_augment import TextAugmentation
from mxtrain.data.text.tokens import format_of, refuse_other
from mxtrain.data.text.windows import Documents, KeptDocuments, Windows
from mxtrain.data.user.user_datasets import UserDataset
from mxtrain.models.contract import Contract
from mxtrain.tasks.task import Description, Forward, Metric, Outcome, Output, State, Task

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block, NDArrays, Net

NOT_COUNTED = -1  # a target: behind the end of the last window


class LanguageModel(Task):
    """The task; its description has `tokenizer`, `vocab_size`, `end_token` and `window`."""

    flags = frozenset(("model", "window", "augment"))
    nets = net_names.that_take(net_names.TOKENS)
    unit = "tokens"

    @property
    def units_per_sample(self) -> int:
        return self.window

    @property
    def window(self) -> int:
        return int(self.description["window"])

    @property
    def vocab_size(self) -> int:
        return int(self.description["vocab_size"])

    @classmethod
    def samples_of(cls, run: Run, dataset: Dataset) -> Dataset:
        if isinstance(dataset, UserDataset):
            return Windows(KeptDocuments(dataset), tokenizers.BYTE_FORMAT, run.data.window)
        return Windows(cast(Documents, dataset), format_of(dataset), run.data.window)

    @classmethod
    def record_of(cls, key: int, item: object, user: str) -> Record:
        """Return the record of a text, whose tokens are its bytes."""
        if not isinstance(item, str):
            raise UsageError(
                f"{user}: gives a {type(item).__name__} for document {key}; give texts, or pack them with a "
                "tokenizer of yours"
            )
        texts.refuse_half_letters(item, key, user)
        ids = [*tokenizers.of_bytes().encode(item), tokenizers.BYTES_END]
        return Record(key, 0.0, np.array(ids, tokenizers.BYTE_FORMAT.dtype).tobytes())

    @classmethod
    def describe(cls, run: Run, train: Dataset, val: Dataset | None) -> Description:
        if not isinstance(train, Windows):
            raise UsageError(
                f"{train.path}: gives batches, or texts without end; a language model cuts its windows itself: give a "
                "list of texts, or token records"
            )
        if val is not None:
            assert isinstance(val, Windows)
            refuse_other(train.path, train.tokens, val.path, val.tokens)
        scores = batch_plan.of_run(run).micro_batch * run.data.window * train.tokens.vocab_size
        if scores > LARGEST_ARRAY:
            raise UsageError(
                f"--micro-batch: {scores:.1e} scores for one are more than MXNet takes in one array; give a lower "
                "--micro-batch or --window"
            )
        known = _known(train)
        return {
            **known,
            "window": train.length,
            **text_augment.check(run.data.augment, known["tokenizer"], of_tokens=False),
        }

    def check(self, dataset: Dataset) -> None:
        assert isinstance(dataset, Windows)
        for key, value in _known(dataset).items():
            if value != self.description[key]:
                raise DataError(
                    f"{dataset.path}: has another {key.replace('_', ' ')} than the net was trained with; pack the same "
                    "text with that one"
                )

    def summary(self) -> str:
        name = tokenizers.name_of(self.description["tokenizer"])
        return f"windows of {self.window} tokens, of {self.vocab_size} by {name}"

    @property
    def fields(self) -> Sequence[Field]:
        return Field("tokens", (self.window,), "int32"), Field("targets", (self.window,), "int32")

    def reader(self, is_training: bool) -> SampleReader:
        change = None
        if is_training and not self.run.optim.overfit:
            change = text_augment.make_augmentation(self.run.data.augment, self.description, has_mask=False)
        return WindowReader(change)

    def samples_seen(self, arrays: Arrays) -> Sequence[tuple[str, Array | str]]:
        if not augmentations.parse_of_text(self.run.data.augment):
            return ()
        windows = [tokens[targets >= 0] for tokens, targets in zip(arrays["tokens"], arrays["targets"])]
        tokenizer = self.description["tokenizer"]
        return [("", text_augment.as_seen(window, tokenizer, self.vocab_size)) for window in windows]

    def sample_result(self, output: Array | None, arrays: Arrays) -> dict[str, Any]:
        """Return how many tokens of the window count, and their perplexity: its loss is their sum."""
        num_tokens = int((arrays["targets"] != NOT_COUNTED).sum())
        if output is None or not num_tokens:
            return {}
        mean = float(output.sum(dtype=np.float64)) / num_tokens
        return {"tokens": num_tokens, "perplexity": math.exp(min(mean, 700.0))}

    def contract(self) -> Contract:
        window, vocab_size = self.window, self.vocab_size
        return Contract(
            inputs=((window,),),
            answer=(window, vocab_size),
            noun="window",
            takes=f"windows of --window {window} tokens",
            expects=f"it has to give (windows, {window}, {vocab_size}): a score for each of {vocab_size} tokens to "
            "come next",
        )

    def build_net(self) -> Block:
        from mxtrain.models.nets import zoo

        text = self.run.model.model
        sizes = {"vocabulary": self.vocab_size, "length": self.window}
        if net_names.takes(text) == net_names.TOKENS:
            net = net_names.build(text, **sizes, end_token=self.description["end_token"])
        else:
            net = zoo.user_net(text, self.objects, **sizes)
        zoo.check_sizes(net, text, self.vocab_size)
        return net

    def training_forward(self, teacher: Block | None) -> Forward:
        return forward

    def metrics(self) -> Sequence[Metric]:
        return (TextMetric(tokenizers.bytes_of_tokens(self.description["tokenizer"])),)


def _known(windows: Windows) -> Description:
    """Return what a net has to know of the tokens that it learns from."""
    tokens = windows.tokens
    portable = tokenizers.portable(tokens.tokenizer, windows.folder)
    return {"tokenizer": portable, "vocab_size": tokens.vocab_size, "end_token": tokens.end_token}


@dataclasses.dataclass(frozen=True)
class WindowReader:
    """A `SampleReader` of windows: their tokens, and for each the one that follows; behind the end nothing counts."""

    change: TextAugmentation | None = None

    def __call__(self, record: Record, rng: np.random.Generator, row: Arrays) -> Arrays:
        seen = ids = record.payload
        if self.change is not None:
            seen, ids = self.change.of_window(ids, rng)
        length = len(ids) - 1
        row["tokens"][:length], row["tokens"][length:] = seen[:-1], 0
        row["targets"][:length], row["targets"][length:] = ids[1:], NOT_COUNTED
        return row


def forward(net: Net, arrays: NDArrays) -> Outcome:
    """Return the cross-entropy of each target that counts; the losses are also what metrics look at."""
    from mxtrain.models.losses import cross_entropy

    tokens, targets = arrays["tokens"].astype("float32"), arrays["targets"].astype("float32")
    scores = net(tokens).astype("float32", copy=False)
    counts = targets >= 0
    losses = cross_entropy(scores, targets) * counts
    return Outcome(losses, counts.sum(), {}, losses)


@dataclasses.dataclass(frozen=True)
class TextMetric:
    """Perplexity, of tokens; and the bits that the model needs for a byte of text, where tokens say their bytes.

    Unlike the former the latter compares models of different tokenizers. Ends of documents cost bits and have no bytes.
    """

    bytes_of_tokens: Array | None
    width = 3
    lower_is_better = True

    @property
    def names(self) -> Sequence[str]:
        """Those of its numbers."""
        return ("perplexity",) if self.bytes_of_tokens is None else ("perplexity", "bits_per_byte")

    def state(self, output: Output, arrays: Arrays) -> State:
        targets = arrays["targets"][arrays["targets"] != NOT_COUNTED]
        num_bytes = 0 if self.bytes_of_tokens is None else self.bytes_of_tokens[targets].sum()
        return np.array([output.asnumpy().sum(dtype=np.float64), len(targets), num_bytes], np.float64)

    def finish(self, states: Sequence[State]) -> dict[str, float]:
        loss, num_tokens, num_bytes = in_order(states).tolist()
        found = {"perplexity": math.exp(min(loss / num_tokens, 700.0))}  # JSON has no infinity
        return {**found, "bits_per_byte": loss / math.log(2) / num_bytes} if num_bytes else found
