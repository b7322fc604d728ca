"""Classification of texts: one of several classes for each text, or for each of its tokens (docs/text.md).

Owns what the two have in common and where they differ: labels, losses, metrics, how answers are shown. Samples are
`data/texts.py`'s, nets `models/text_nets.py`'s or the user's, losses `models/losses.py`'s.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Mapping, Sequence

from mxtrain.config import Run, catalogue
from mxtrain.core.errors import DataError
from mxtrain.data import class_weights, labels, texts, tokenizers
from mxtrain.data.fields import Field
from mxtrain.data.records import Dataset
from mxtrain.data.texts import TextReader
from mxtrain.data.tokens import OF_DOCUMENTS, OF_TOKENS, TokenFormat, format_of, refuse_other
from mxtrain.models.contract import Contract
from mxtrain.tasks.classification import counted
from mxtrain.tasks.task import Description, Metric, Outcome, Score, Task
from mxtrain.tasks.text_metrics import Confusion, Entities, is_bio

_OF_FORMAT = ("vocab_size", "end_token", "dtype")


class TextTask(Task):
    """What both tasks share; the description has class names, what is known of tokens, and the window."""

    losses = catalogue.LOSSES_OF_CLASSES
    nets = tuple(catalogue.TEXT_NETS)
    unit = "texts"
    step_means = ("accuracy",)
    what_has_labels: ClassVar[str]  # OF_DOCUMENTS or OF_TOKENS

    @classmethod
    def class_names_of(cls, run: Run, train: Dataset, val: Dataset | None) -> list[str]:
        """Check the labels of both data sets, and return the names of the classes."""
        raise NotImplementedError

    @classmethod
    def describe(cls, run: Run, train: Dataset, val: Dataset | None) -> Description:
        tokens = format_of(train)
        for dataset in filter(None, (train, val)):
            refuse_other(train.path, tokens, dataset.path, format_of(dataset))
            texts.refuse_other_labels(dataset, cls.what_has_labels)
        names = cls.class_names_of(run, train, val)
        weights = class_weights.of_classes(run.model.class_weights, train, names)
        return {
            "class_names": names,
            **({} if weights is None else {"class_weights": weights}),
            "tokenizer": tokenizers.portable(tokens.tokenizer, train.files[0].parent),
            **{name: getattr(tokens, name) for name in _OF_FORMAT},
            "window": run.data.window,
        }

    def check(self, dataset: Dataset) -> None:
        texts.refuse_other_labels(dataset, self.what_has_labels)
        found = format_of(dataset)
        same = {name: getattr(found, name) == self.description[name] for name in _OF_FORMAT}
        portable = tokenizers.portable(found.tokenizer, dataset.files[0].parent)
        same["tokenizer"] = portable == self.description["tokenizer"]
        for name, is_same in same.items():
            if not is_same:
                raise DataError(
                    f"{dataset.path}: has another {name.replace('_', ' ')} than the net was trained with; pack the "
                    "text with that one"
                )

    @property
    def class_names(self) -> list[str]:
        names: list[str] = self.description["class_names"]
        return names

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
        tokens = TokenFormat(self.description["tokenizer"], *(self.description[name] for name in _OF_FORMAT))
        return TextReader(tokens, self.window, len(self.class_names), self.what_has_labels == OF_TOKENS)

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

    def build_net(self) -> Any:
        from mxtrain.models import text_nets, zoo

        text, num_classes = self.run.model.model, len(self.class_names)
        sizes = {
            "vocabulary": self.description["vocab_size"],
            "num_classes": num_classes,
            "length": self.window,
        }
        if catalogue.model(text).name in catalogue.TEXT_NETS:
            net = text_nets.build(text, **sizes, of_tokens=self.what_has_labels == OF_TOKENS)
        else:
            net = zoo.user_net(text, **sizes)
        zoo.check_sizes(net, text, num_classes)
        return net

    def training_forward(self, teacher: Any) -> TextForward:
        return self._forward(self.run.optim.label_smoothing, self.description.get("class_weights"))

    def plain_forward(self) -> TextForward:
        return self._forward(0.0, None)

    def _answer(self) -> tuple[int, ...]:
        """Return the shape of the net's answer to one text."""
        raise NotImplementedError

    def _forward(self, smoothing: float, weights: Sequence[float] | None) -> TextForward:
        from mxtrain.models import losses

        loss = losses.build(self.run.model.loss, smoothing, len(self.class_names))
        return TextForward(loss, weights)


class SequenceClassification(TextTask):
    """One of several classes for each text."""

    flags = frozenset(
        ("model", "loss", "window", "num_classes", "sampling", "label_smoothing", "class_weights")
    )
    what_has_labels = OF_DOCUMENTS
    score = Score("accuracy")

    @classmethod
    def class_names_of(cls, run: Run, train: Dataset, val: Dataset | None) -> list[str]:
        return labels.class_names(train, val, run.data.num_classes, of_text=True)

    def check(self, dataset: Dataset) -> None:
        super().check(dataset)
        labels.check(dataset, self.class_names, of_text=True)

    def metrics(self) -> Sequence[Metric]:
        return (Confusion(len(self.class_names)),)

    def _answer(self) -> tuple[int, ...]:
        return (len(self.class_names),)


class TokenClassification(TextTask):
    """One of several classes for each token that has a label: the first of each word."""

    flags = frozenset(("model", "loss", "window", "label_smoothing"))
    what_has_labels = OF_TOKENS

    @classmethod
    def class_names_of(cls, run: Run, train: Dataset, val: Dataset | None) -> list[str]:
        names = texts.token_class_names(train)
        if val is not None:
            labels.refuse_other_names(val, names)
        return names

    def check(self, dataset: Dataset) -> None:
        super().check(dataset)
        labels.refuse_other_names(dataset, self.class_names)

    @property
    def score(self) -> Score:
        return Score("entity_f1" if is_bio(self.class_names) else "macro_f1")

    def metrics(self) -> Sequence[Metric]:
        entities = [Entities(self.class_names)] if is_bio(self.class_names) else []
        return (Confusion(len(self.class_names)), *entities)

    def _answer(self) -> tuple[int, ...]:
        return (self.window, len(self.class_names))


@dataclasses.dataclass(frozen=True)
class TextForward:
    """The losses of a micro-batch, one for each label; the weight is how many labels there are, or their classes'."""

    loss: Any
    class_weights: Sequence[float] | None = None

    def __call__(self, net: Any, arrays: Mapping[str, Any]) -> Outcome:
        from mxtrain.runtime import mx

        # The loss is computed in float32 whatever the net runs in.
        output = net(arrays["tokens"].astype("float32"), arrays["mask"]).astype("float32", copy=False)
        scores, label = output.reshape((-1, output.shape[-1])), arrays["label"].reshape(-1)
        known = label >= 0
        counts = known
        if self.class_weights is not None:
            counts = known * mx.nd.array(self.class_weights, ctx=label.context).take(label)
        losses = counted(self.loss(scores, label.relu()), counts)
        with mx.autograd.pause():
            hits = (scores.argmax(axis=1) == label).sum()  # none where there is no label
        return Outcome(losses, counts.sum(), {"accuracy": (hits, known.sum())}, output)
