"""The common parts of classifying texts and their tokens: tokens, nets, losses (docs/text.md).

Does not own the tasks themselves (`sequence_classification.py`, `token_classification.py`). Samples are
`data/text/texts.py`'s, nets `models/nets/text_nets.py`'s or the user's, losses `models/losses.py`'s.
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Sequence

from mxtrain.config import Run
from mxtrain.config.components import augmentations
from mxtrain.config.components import losses as loss_names
from mxtrain.config.components import nets as net_names
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.fields import Array, Arrays, Field
from mxtrain.data.interfaces import Dataset
from mxtrain.data.labels import class_weights
from mxtrain.data.text import text_augment, text_files, texts, tokenizers
from mxtrain.data.text.texts import TextReader
from mxtrain.data.text.tokens import OF_TOKENS, TokenFormat, format_of, refuse_other
from mxtrain.models.contract import Contract
from mxtrain.tasks.classes import TaskOfClasses, counted, described
from mxtrain.tasks.task import Description, Outcome, Output

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block, NDArray, NDArrays, Net

_OF_FORMAT = ("vocab_size", "end_token", "dtype")


class TextTask(TaskOfClasses):
    """The base of both tasks; the description has class names, what is known of tokens, and the window."""

    losses = loss_names.of_target(loss_names.CLASSES)
    nets = net_names.that_take(net_names.TEXTS)
    unit = "texts"
    metric_kind = "classes"
    suffixes = (".txt",)
    step_means = ("accuracy",)
    what_has_labels: ClassVar[str]  # OF_DOCUMENTS or OF_TOKENS

    @classmethod
    def class_names_of(cls, run: Run, train: Dataset, val: Dataset | None) -> list[str]:
        """Check the labels of both data sets, and return the names of the classes."""
        raise NotImplementedError

    @classmethod
    def describe(cls, run: Run, train: Dataset, val: Dataset | None) -> Description:
        if not hasattr(train, "read"):
            raise UsageError(
                f"{train.path}: gives batches; give pairs of a text and a class, or records that are packed"
            )
        tokens = _format_of(train)
        for dataset in filter(None, (train, val)):
            refuse_other(train.path, tokens, dataset.path, _format_of(dataset))
            texts.refuse_other_labels(dataset, cls.what_has_labels)
        names = cls.class_names_of(run, train, val)
        weights = class_weights.of_classes(run.model.class_weights, train, names)
        tokenizer = _portable(tokens, train)
        return {
            **described(names, weights),
            "tokenizer": tokenizer,
            **{name: getattr(tokens, name) for name in _OF_FORMAT},
            "window": run.data.window,
            **text_augment.check(run.data.augment, tokenizer, cls.what_has_labels == OF_TOKENS),
        }

    def check(self, dataset: Dataset) -> None:
        texts.refuse_other_labels(dataset, self.what_has_labels)
        found = _format_of(dataset)
        same = {name: getattr(found, name) == self.description[name] for name in _OF_FORMAT}
        same["tokenizer"] = _portable(found, dataset) == self.description["tokenizer"]
        for name, is_same in same.items():
            if not is_same:
                raise DataError(
                    f"{dataset.path}: has another {name.replace('_', ' ')} than the net was trained with; pack the "
                    "text with that one"
                )

    @property
    def window(self) -> int:
        return int(self.description["window"])

    def summary(self) -> str:
        name = tokenizers.name_of(self.description["tokenizer"])
        of_what = self.what_has_labels
        return (
            f"{len(self.class_names)} classes of {of_what}, {self.description['vocab_size']} tokens by {name}"
        )

    @property
    def fields(self) -> Sequence[Field]:
        return texts.fields(self.window, self.what_has_labels == OF_TOKENS)

    def reader(self, is_training: bool) -> TextReader:
        known = self.description
        tokens = TokenFormat(known["tokenizer"], *(known[name] for name in _OF_FORMAT))
        change = None
        if is_training and not self.run.optim.overfit:
            change = text_augment.make_augmentation(self.run.data.augment, known)
        return TextReader(
            tokens, self.window, len(self.class_names), self.what_has_labels == OF_TOKENS, change
        )

    def samples_seen(self, arrays: Arrays) -> Sequence[tuple[str, Array | str]]:
        if not augmentations.parse_of_text(self.run.data.augment):
            return ()
        known, has_one = self.description, arrays["label"].ndim == 1
        return [
            (
                self.class_names[int(label)] if has_one else "",
                text_augment.as_seen(tokens[mask > 0], known["tokenizer"], known["vocab_size"]),
            )
            for tokens, mask, label in zip(arrays["tokens"], arrays["mask"], arrays["label"])
        ]

    def contract(self) -> Contract:
        shape, answer = (self.window,), self._answer()
        scores = ", ".join(map(str, ("texts", *answer)))
        return Contract(
            inputs=(shape, shape),
            answer=answer,
            noun="text",
            takes=f"texts of --window {self.window} tokens, and a mask of where they are",
            expects=f"there are {len(self.class_names)} classes; it has to give one array of shape ({scores})",
        )

    def build_net(self) -> Block:
        from mxtrain.models.nets import zoo

        text, num_classes = self.run.model.model, len(self.class_names)
        sizes = {
            # One more than there are, for what --augment mask_spans masks: MXNet would take the last one for it.
            "vocabulary": self.description["vocab_size"] + 1,
            "num_classes": num_classes,
            "length": self.window,
        }
        if net_names.takes(text) == net_names.TEXTS:
            net = net_names.build(text, **sizes, of_tokens=self.what_has_labels == OF_TOKENS)
        else:
            net = zoo.user_net(text, self.objects, **sizes)
        zoo.check_sizes(net, text, num_classes)
        return net

    def training_forward(self, teacher: Block | None) -> TextForward:
        return self._forward(self.run.optim.label_smoothing, self.description.get("class_weights"))

    def plain_forward(self) -> TextForward:
        return self._forward(0.0, None)

    def predictions_and_targets(self, output: Output, arrays: Arrays) -> tuple[Array, Array]:
        label = arrays["label"]
        return output.asnumpy()[label >= 0], label[label >= 0]

    def samples_in(self, source: object) -> Sequence[tuple[str, object]]:
        """Return the texts of a file, of which .jsonl and tables hold several; a `str` is a text."""
        return (
            text_files.texts_in(Path(source)) if isinstance(source, os.PathLike) else [(str(source), source)]
        )

    def inputs_of(self, source: object) -> dict[str, Any]:
        """Return the arrays of a text: what a file holds, or a `str` itself. The label of a word's first token is 0."""
        tokenizer = tokenizers.cached(self.description["tokenizer"])
        return texts.input_of(source, tokenizer, self.window, self.what_has_labels == OF_TOKENS)

    def _probabilities(self, net: Net, arrays: NDArrays) -> NDArray:
        output = net(arrays["tokens"].astype("float32"), arrays["mask"]).astype("float32", copy=False)
        return output.softmax(axis=-1)

    def _answer(self) -> tuple[int, ...]:
        """Return the shape of the net's answer to one text."""
        raise NotImplementedError

    def _forward(self, smoothing: float, weights: Sequence[float] | None) -> TextForward:
        from mxtrain.models import losses

        loss = losses.build(self.run.model.loss, smoothing, len(self.class_names), self.objects)
        return TextForward(loss, weights)


def _format_of(dataset: Dataset) -> TokenFormat:
    """Return the format of a data set's tokens: of a user's texts these are bytes."""
    return format_of(dataset) if dataset.files else tokenizers.BYTE_FORMAT


def _portable(tokens: TokenFormat, dataset: Dataset) -> str:
    return tokenizers.portable(tokens.tokenizer, dataset.files[0].parent if dataset.files else Path())


@dataclasses.dataclass(frozen=True)
class TextForward:
    """The losses of a micro-batch, one for each label; the weight is how many labels there are, or their classes'."""

    loss: Any
    class_weights: Sequence[float] | None = None

    def __call__(self, net: Net, arrays: NDArrays) -> Outcome:
        from mxtrain.models.losses import likeliest
        from mxtrain.runtime import mx

        # The loss is computed in float32 whatever the net runs in.
        output = net(arrays["tokens"].astype("float32"), arrays["mask"]).astype("float32", copy=False)
        scores, label = output.reshape((-1, output.shape[-1])), arrays["label"].reshape(-1)
        known = label >= 0
        counts = known
        if self.class_weights is not None:
            counts = known * mx.nd.array(self.class_weights, ctx=label.context).take(label)
        losses = counted(self.loss(scores, label.relu()), counts).reshape(arrays["label"].shape)
        with mx.autograd.pause():
            hits = (likeliest(scores) == label).sum()  # none where there is no label
        return Outcome(losses, counts.sum(), {"accuracy": (hits, known.sum())}, output)
