"""The language of --augment: `resized_crop:scale_min=0.2+flip`, names with their numbers, joined by `+`.

Owns which augmentations there are, their numbers with defaults and limits, and how a description becomes a
transform `(payload, rng, out)`. What they do to pixels is the part of `pixels.py` (crops) and `changes.py`, which are
loaded only to build a transform: a run is checked without OpenCV.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable

from mxtrain.config import names
from mxtrain.config.spec import Number, Spec
from mxtrain.config.spec import parse as parse_spec
from mxtrain.core.errors import UsageError, naming

if TYPE_CHECKING:
    from mxtrain.data.pixels import Transform

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)

# These pick the part of the picture that the net sees. One comes first; where none is given it is `none`.
CROPS: dict[str, dict[str, Number]] = {
    "none": {},
    "resized_crop": {
        "scale_min": Number(0.08, 1e-4, 1.0),
        "scale_max": Number(1.0, 1e-4, 1.0),
        "ratio_min": Number(3 / 4, 0.01, 100.0),
        "ratio_max": Number(4 / 3, 0.01, 100.0),
    },
    "pad_crop": {"pad": Number(4, 0, 1024)},
}
# These change the crop, in the order given.
CHANGES: dict[str, dict[str, Number]] = {
    "flip": {"p": Number(0.5, 0.0, 1.0)},
    "vertical_flip": {"p": Number(0.5, 0.0, 1.0)},
    "rotate": {"degrees": Number(15.0, 0.0, 180.0)},
    "colour_jitter": {
        "brightness": Number(0.4, 0.0, 1.0),
        "contrast": Number(0.4, 0.0, 1.0),
        "saturation": Number(0.4, 0.0, 1.0),
        "hue": Number(0.0, 0.0, 0.5),
    },
    "grayscale": {"p": Number(0.1, 0.0, 1.0)},
    "lighting": {"alpha": Number(0.1, 0.0, 10.0)},
    "randaugment": {"n": Number(2, 1, 100), "m": Number(9, 0, 10)},
    "erase": {
        "p": Number(0.5, 0.0, 1.0),
        "scale_min": Number(0.02, 1e-4, 1.0),
        "scale_max": Number(1 / 3, 1e-4, 1.0),
        "ratio_min": Number(0.3, 0.01, 100.0),
        "ratio_max": Number(1 / 0.3, 0.01, 100.0),
    },
}
KNOWN = {**CROPS, **CHANGES}


def check(spec: str) -> None:
    """UsageError for a description that cannot be built."""
    parse(spec)


def parse(spec: str) -> list[Spec]:
    """The crop, then the changes in their order."""
    if not all(part.strip() for part in spec.split("+")):
        raise UsageError(f"--augment {spec}: a name is missing; give names joined by +, or none")
    found = [parse_spec("--augment", part.strip(), KNOWN) for part in spec.split("+")]
    if found[0].name not in CROPS:
        found.insert(0, Spec("none", {}))
    for augmentation in found[1:]:
        if augmentation.name in CROPS:
            raise UsageError(
                f"--augment {spec}: {augmentation.name} has to come first; at most one of {', '.join(CROPS)}"
            )
    return found


def train_transform(
    spec: str,
    image_size: int,
    mean: tuple[float, float, float] = IMAGENET_MEAN,
    std: tuple[float, float, float] = IMAGENET_STD,
) -> Transform:
    """What --augment says, then normalised by `mean` and `std` of pixels from 0 to 1."""
    from mxtrain.data import changes as known_changes
    from mxtrain.data import pixels

    crop, *changes = parse(spec)
    return pixels.Transform(
        crop=_function(pixels.CROPS, crop),
        changes=tuple(_function(known_changes.CHANGES, change) for change in changes),
        image_size=image_size,
        mean=mean,
        std=std,
    )


def eval_transform(
    image_size: int,
    resize: int,
    mean: tuple[float, float, float] = IMAGENET_MEAN,
    std: tuple[float, float, float] = IMAGENET_STD,
) -> Transform:
    """Short side to `resize`, centre `image_size`, nothing random."""
    from mxtrain.data import pixels

    if resize < image_size:
        raise UsageError(
            f"--val-resize {resize} is below --image-size {image_size}; give {image_size} or more"
        )
    crop = functools.partial(pixels.centre_crop, resize=resize)
    return pixels.Transform(crop, (), image_size, mean, std)


def _function(known: dict[str, Callable[..., Any]], augmentation: Spec) -> Callable[..., Any]:
    if augmentation.name in known:
        return functools.partial(known[augmentation.name], **augmentation.numbers)
    return naming(f"--augment {augmentation.name}", names.load_path("--augment", augmentation.name))
