"""The names of ImageNet's thousand classes, in the order that all pretrained nets have: GluonCV's list of them."""

from __future__ import annotations

from collections import Counter

from mxtrain import runtime


def class_names_of_imagenet() -> list[str]:
    """Return a name for each class; two birds and machines of one name have what tells them apart with it."""
    attributes = runtime.load_gluoncv_module("gluoncv.data.imagenet.classification").ImageNet1kAttr()
    times = Counter(attributes.classes)
    every = zip(attributes.classes, attributes.synset)
    return [name if times[name] == 1 else f"{name} {synset}" for name, synset in every]
