"""Augmentations by name: `--augment`. To add one is an entry here, and a function of a picture or a text.

Owns their numbers, their order and parsing the flag. The functions are in `mxtrain/data/augment/` and
`mxtrain/data/text/text_augment.py`.
"""

from __future__ import annotations

import dataclasses

from mxtrain.config.components import component
from mxtrain.config.components.component import Component, Number, Spec, by_name
from mxtrain.core.errors import UsageError

AUTO = "auto"  # what suits the training set, as `data/augment/augment_choice.py` finds
IMAGENET = "resized_crop+flip"
OF_BOXES = (  # as SSDs are learnt
    "colour_jitter:brightness=0.125,contrast=0.5,saturation=0.5,hue=0.05,p=0.5+expand+iou_crop+flip"
)


@dataclasses.dataclass(frozen=True)
class Augmentation(Component):
    """An augmentation of pictures.

    The factory of a crop is a function of payload, generator, size and its numbers, that of another one of pixels,
    generator and its numbers; both return pixels.
    """

    is_crop: bool = False  # picks what the net sees, and comes first
    needs_colours: bool = False  # does nothing sensible to grey pictures


@dataclasses.dataclass(frozen=True)
class TextAugmentation(Component):
    """An augmentation of texts. Its factory is a function of words, generator and its numbers that returns words; or,
    where it `masks`, of the number of tokens, generator and its numbers, that returns which are masked."""

    masks: bool = False
    splits_entities: bool = False  # leaves no labels of words as they were
    reads_table: bool = False  # of words: its number `file` becomes a mapping


@dataclasses.dataclass(frozen=True)
class BoxAugmentation(Component):
    """An augmentation of pictures with boxes. Its factory is a function of these, generator and its numbers.

    One of several samples, and the one that says how a picture gets the net's size, are called by
    `data/augment/box_transforms.py`.
    """

    is_of_several: bool = False


@dataclasses.dataclass(frozen=True)
class MaskAugmentation(Component):
    """An augmentation of pictures with masks. Its factory is a function of these, generator and its numbers.

    That of the crop, which has none, is called by `data/augment/mask_transforms.py`.
    """


_CROPS, _CHANGES = "mxtrain.data.augment.crops:", "mxtrain.data.augment.augmentations:"
_BOXES = "mxtrain.data.augment.box_augmentations:"
_MASKS = "mxtrain.data.augment.mask_transforms:"
_TEXT = "mxtrain.data.text.text_augment:"
_P, _SCALES = Number(0.5, 0.0, 1.0), (1e-4, 1.0)

AUGMENTATIONS = by_name(
    Augmentation(
        "none",
        "the largest centred box of the shape of `--image-size`",
        _CROPS + "centre_crop",
        is_crop=True,
    ),
    Augmentation(
        "resized_crop",
        "a box of a random fraction of the area (`scale`) and a random width over height (`ratio`, times that of "
        "`--image-size`: at 1 nothing is distorted), anywhere, stretched",
        _CROPS + "resized_crop",
        {
            "scale_min": Number(0.08, *_SCALES),
            "scale_max": Number(1.0, *_SCALES),
            "ratio_min": Number(3 / 4, 0.01, 100.0),
            "ratio_max": Number(4 / 3, 0.01, 100.0),
        },
        is_crop=True,
    ),
    Augmentation(
        "pad_crop",
        "the largest box of its shape at `--image-size`, at a random place, padded with `pad` black pixels, cropped at "
        "a random place",
        _CROPS + "pad_crop",
        {"pad": Number(4, 0, 1024)},
        is_crop=True,
    ),
    Augmentation("flip", "mirrored left to right, with probability `p`", _CHANGES + "flip", {"p": _P}),
    Augmentation(
        "vertical_flip",
        "mirrored top to bottom, with probability `p`",
        _CHANGES + "vertical_flip",
        {"p": _P},
    ),
    Augmentation(
        "rotate",
        "rotated about the centre by up to `degrees`, either way; gray outside the picture",
        _CHANGES + "rotate",
        {"degrees": Number(15.0, 0.0, 180.0)},
    ),
    Augmentation(
        "colour_jitter",
        "each by a random factor from 1 - number to 1 + number, in a random order; `hue` turns the colour circle by at "
        "most this fraction (0.5: any colour); each with probability `p`",
        _CHANGES + "colour_jitter",
        {
            **dict.fromkeys(("brightness", "contrast", "saturation"), Number(0.4, 0.0, 1.0)),
            "hue": Number(0.0, 0.0, 0.5),
            "p": Number(1.0, 0.0, 1.0),
        },
    ),
    Augmentation(
        "grayscale",
        "made gray, with probability `p`",
        _CHANGES + "grayscale",
        {"p": Number(0.1, 0.0, 1.0)},
        needs_colours=True,
    ),
    Augmentation(
        "lighting",
        "AlexNet's noise: one shift for all pixels, along the directions in which ImageNet's colours vary",
        _CHANGES + "lighting",
        {"alpha": Number(0.1, 0.0, 10.0)},
        needs_colours=True,
    ),
    Augmentation(
        "randaugment",
        "`n` operations, drawn with replacement from the fourteen below, at magnitude `m` of 10",
        _CHANGES + "randaugment",
        {"n": Number(2, 1, 100), "m": Number(9, 0, 10)},
    ),
    Augmentation(
        "erase",
        "a box of random area, shape and place filled with random pixels, with probability `p`",
        _CHANGES + "erase",
        {
            "p": _P,
            "scale_min": Number(0.02, *_SCALES),
            "scale_max": Number(1 / 3, *_SCALES),
            "ratio_min": Number(0.3, 0.01, 100.0),
            "ratio_max": Number(1 / 0.3, 0.01, 100.0),
        },
    ),
)
CROPS = {name: augmentation for name, augmentation in AUGMENTATIONS.items() if augmentation.is_crop}
CHANGES = {name: augmentation for name, augmentation in AUGMENTATIONS.items() if not augmentation.is_crop}

LETTERBOX = "letterbox"
BOX_AUGMENTATIONS = by_name(
    BoxAugmentation(
        "mosaic",
        "four pictures, three of them drawn, around a random point of one that is twice as high and wide, with "
        "probability `p`",
        _BOXES + "mosaic",
        {"p": Number(1.0, 0.0, 1.0)},
        is_of_several=True,
    ),
    BoxAugmentation(
        "mixup",
        "blended with a drawn picture, whose share is from Beta(`alpha`, `alpha`), with probability `p`; has the boxes "
        "of both",
        _BOXES + "mixup",
        {"p": _P, "alpha": Number(1.5, 0.01, 100.0)},
        is_of_several=True,
    ),
    BoxAugmentation(
        "expand",
        "anywhere on a gray picture of up to `ratio_max` times its sides, with probability `p`",
        _BOXES + "expand",
        {"p": _P, "ratio_max": Number(4.0, 1.0, 16.0)},
    ),
    BoxAugmentation(
        "iou_crop",
        "a part of `scale_min` to `scale_max` of the sides, distorted by `ratio_max` at most, that overlaps a box by a "
        "random one of 0, 0.1, 0.3, 0.5, 0.7 and 0.9 or more, with probability `p`: SSD's crop",
        _BOXES + "iou_crop",
        {
            "p": Number(0.85, 0.0, 1.0),
            "scale_min": Number(0.3, 0.01, 1.0),
            "scale_max": Number(1.0, 0.01, 1.0),
            "ratio_max": Number(2.0, 1.0, 10.0),
        },
    ),
    BoxAugmentation(
        "scale_jitter",
        "scaled by a random factor within a picture of the same size, cut or with gray beside it",
        _BOXES + "scale_jitter",
        {"scale_min": Number(0.5, 0.05, 10.0), "scale_max": Number(2.0, 0.05, 10.0)},
    ),
    *(
        BoxAugmentation(name, CHANGES[name].help, _BOXES + name, CHANGES[name].numbers)
        for name in ("flip", "vertical_flip", "colour_jitter", "grayscale", "lighting")
    ),
    BoxAugmentation(
        LETTERBOX,
        "scaled to `--image-size` undistorted, with gray beside it: the last one, and so in evaluations too; without "
        "it pictures are stretched",
    ),
)

SCALE_CROP = "scale_crop"
OF_MASKS = "scale_crop+flip"  # as the published recipes have it
MASK_AUGMENTATIONS = by_name(
    MaskAugmentation(
        SCALE_CROP,
        "scaled by a random factor, at 1 to cover `--image-size`, then cut or with ignored gray beside it, at a random "
        "place: the first one",
        numbers={"scale_min": Number(0.5, 0.05, 10.0), "scale_max": Number(2.0, 0.05, 10.0)},
    ),
    *(
        MaskAugmentation(name, CHANGES[name].help, _MASKS + name, CHANGES[name].numbers)
        for name in ("flip", "vertical_flip", "rotate", "colour_jitter", "grayscale", "lighting")
    ),
    MaskAugmentation(
        "blur",
        "blurred by a Gaussian of up to `radius_max` pixels, with probability `p`",
        _MASKS + "blur",
        {"p": _P, "radius_max": Number(1.0, 0.0, 100.0)},
    ),
)

TEXT_AUGMENTATIONS = by_name(
    TextAugmentation(
        "synonyms",
        "each word of the table becomes, with this probability, one of its synonyms: lines of a word and its synonyms "
        "with tabs between, UTF-8. A word with a capital is looked up without it too. A label stays with its word",
        _TEXT + "replaced",
        {"file": Number("", 0, 0), "p": Number(0.1, 0.0, 1.0)},
        reads_table=True,
    ),
    TextAugmentation(
        "drop_words",
        "words are left out; not for classes of words",
        _TEXT + "left_out",
        {"p": Number(0.1, 0.0, 0.9)},
        splits_entities=True,
    ),
    TextAugmentation(
        "mask_spans",
        "this share of the tokens is masked, in spans of this mean length",
        _TEXT + "spans",
        {"p": Number(0.15, 0.0, 0.9), "mean": Number(3.0, 1.0, 1000.0)},
        masks=True,
    ),
)


def parse(text: str) -> list[Spec]:
    """Parse --augment: names joined by `+`. The crop comes first, then the changes in their order."""
    if not all(part.strip() for part in text.split("+")):
        raise UsageError(f"--augment {text}: a name is missing; give names joined by +, or none")
    parsed = [component.parse("--augment", part.strip(), AUGMENTATIONS) for part in text.split("+")]
    if parsed[0].name not in CROPS:
        parsed.insert(0, Spec("none", {}))
    for augmentation in parsed[1:]:
        if augmentation.name in CROPS:
            raise UsageError(
                f"--augment {text}: {augmentation.name} has to come first; at most one of {', '.join(CROPS)}"
            )
    return parsed


def parse_of_boxes(text: str) -> list[Spec]:
    """Parse --augment of pictures with boxes: names joined by `+`, or none."""
    if text == "none":
        return []
    parsed = [component.parse("--augment", part.strip(), BOX_AUGMENTATIONS) for part in text.split("+")]
    names = [spec.name for spec in parsed]
    several = [name for name in names if is_of_several(name)]
    if names[: len(several)] != several or len(set(several)) < len(several):
        raise UsageError(
            f"--augment {text}: what makes one picture of several begins with whole ones; give {', '.join(several)} "
            "first, each once"
        )
    if LETTERBOX in names[:-1]:
        raise UsageError(
            f"--augment {text}: {LETTERBOX} makes the size that the net sees; give it last, and once"
        )
    return parsed


def parse_of_masks(text: str) -> list[Spec]:
    """Parse --augment of pictures with masks: names joined by `+`, or none."""
    if text == "none":
        return []
    parsed = [component.parse("--augment", part.strip(), MASK_AUGMENTATIONS) for part in text.split("+")]
    if any(spec.name == SCALE_CROP for spec in parsed[1:]):
        raise UsageError(
            f"--augment {text}: {SCALE_CROP} makes the size that the net sees; give it first, and once"
        )
    return parsed


def is_of_several(name: str) -> bool:
    """Return whether an augmentation makes one sample of several."""
    return name in BOX_AUGMENTATIONS and BOX_AUGMENTATIONS[name].is_of_several


def parse_of_text(text: str) -> list[Spec]:
    """Parse --augment of texts: names joined by `+`, or none."""
    if text == "none":
        return []
    parsed = [component.parse("--augment", part.strip(), TEXT_AUGMENTATIONS) for part in text.split("+")]
    for augmentation in parsed:
        if augmentation.name not in TEXT_AUGMENTATIONS:
            raise UsageError(f"--augment {text}: texts take names alone ({', '.join(TEXT_AUGMENTATIONS)})")
    return parsed
