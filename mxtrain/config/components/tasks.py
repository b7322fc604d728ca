"""Tasks by name: `--task`. To add one is an entry here, and a class that inherits `mxtrain.tasks.task.Task`.

Owns what is known of a task before its class is imported: what its flags are where they are left out.
"""

from __future__ import annotations

import dataclasses

from mxtrain.config.components import augmentations, losses
from mxtrain.config.components.component import Component, by_name

PICTURES, ARRAYS, IDS = "pictures", "arrays", "ids"
TEXTS, WINDOWS = "texts", "windows"  # of a text that goes on


@dataclasses.dataclass(frozen=True)
class TaskDefaults(Component):
    """A task, and what --model, --loss and --augment are where they are left out; its factory is a class."""

    model: str = "resnet18_v1b"
    loss: str = "cross_entropy"
    augment: str = augmentations.IMAGENET
    samples: str = ""  # what they are: one of the kinds above; nothing is known of those of one's own
    has_boxes: bool = False  # whether augmentations are those that move boxes
    has_masks: bool = False  # or masks
    text_type: str = ""  # of texts: the type of a source that has its labels (`data/sources/source_types.py`)

    @property
    def has_texts(self) -> bool:
        """True where augmentations are those of texts."""
        return self.samples in (TEXTS, WINDOWS)


TASKS = by_name(
    TaskDefaults(
        "classification",
        "a class for each picture",
        "mxtrain.tasks.classification:Classification",
        augment=augmentations.AUTO,
        samples=PICTURES,
    ),
    TaskDefaults(
        "multilabel",
        "any number of classes for each picture",
        "mxtrain.tasks.multilabel:Multilabel",
        loss="binary_cross_entropy",
        augment=augmentations.AUTO,
        samples=PICTURES,
    ),
    TaskDefaults(
        "regression",
        "numbers for each picture",
        "mxtrain.tasks.regression:Regression",
        loss="l2",
        augment="none",
        samples=PICTURES,
    ),
    TaskDefaults(
        "detection",
        "boxes with classes in each picture",
        "mxtrain.tasks.detection:Detection",
        model="ssd_512_mobilenet1.0_voc",
        augment=augmentations.AUTO,
        samples=PICTURES,
        has_boxes=True,
    ),
    TaskDefaults(
        "segmentation",
        "a class for each pixel",
        "mxtrain.tasks.segmentation:Segmentation",
        model="fcn_resnet50_voc",
        augment=augmentations.OF_MASKS,
        samples=PICTURES,
        has_masks=True,
    ),
    TaskDefaults(
        "arrays",
        "classes or numbers of tables and arrays",
        "mxtrain.tasks.arrays:Arrays",
        model="mlp",
        loss=losses.AUTO,
        samples=ARRAYS,
    ),
    TaskDefaults(
        "recommendation",
        "clicks or ratings of ids, as of users and items",
        "mxtrain.tasks.recommendation:Recommendation",
        model="deepfm",
        loss=losses.AUTO,
        samples=IDS,
    ),
    TaskDefaults(
        "lm",
        "the next token of a text",
        "mxtrain.tasks.lm:LanguageModel",
        model="gpt_10m",
        augment="none",
        samples=WINDOWS,
        text_type="text",
    ),
    TaskDefaults(
        "sequence_classification",
        "a class for each text",
        "mxtrain.tasks.sequence_classification:SequenceClassification",
        model="bilstm",
        augment="none",
        samples=TEXTS,
        text_type="labelled_text",
    ),
    TaskDefaults(
        "token_classification",
        "a class for each word of a text",
        "mxtrain.tasks.token_classification:TokenClassification",
        model="bilstm",
        augment="none",
        samples=TEXTS,
        text_type="tagged_text",
    ),
)
OWN = TaskDefaults("module:Class", "a task of one's own")


def defaults_of(task: str) -> TaskDefaults:
    """Return what is known of a task, or of one of the user's own."""
    return TASKS.get(task, OWN)
