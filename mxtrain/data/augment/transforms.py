"""Building transforms `(payload, rng, out)`: that of --augment for training, and that of an evaluation.

Does not own which augmentations there are (`config/components/augmentations.py`), nor their functions (crops in
`crops.py`, the others in `augmentations.py`).
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Callable

from mxtrain.config.components import augmentations, import_path
from mxtrain.config.components.component import Spec
from mxtrain.config.values import sizes
from mxtrain.config.values.mean_deviation import Numbers
from mxtrain.config.values.sizes import ImageSize
from mxtrain.core.errors import UsageError, as_user_code

if TYPE_CHECKING:
    from mxtrain.data.augment.crops import Transform

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def train_transform(
    spec: str,
    image_size: ImageSize,
    mean: Numbers = IMAGENET_MEAN,
    std: Numbers = IMAGENET_STD,
) -> Transform:
    """Build what --augment `spec` describes, followed by normalisation by `mean` and `std` of pixels from 0 to 1.

    As many numbers as there are, so many channels do pictures have: three, or one of grey.
    """
    from mxtrain.data.augment import crops

    crop, *changes = augmentations.parse(spec)
    return crops.Transform(
        crop=_function(crop),
        changes=tuple(_function(change) for change in changes),
        size=sizes.height_and_width(image_size),
        mean=mean,
        std=std,
    )


def eval_transform(
    image_size: ImageSize,
    resize: int,
    mean: Numbers = IMAGENET_MEAN,
    std: Numbers = IMAGENET_STD,
) -> Transform:
    """Build the transform of an evaluation: short side to `resize`, centre crop of `image_size`, nothing random."""
    from mxtrain.data.augment import crops

    size = sizes.height_and_width(image_size)
    if resize < min(size):
        raise UsageError(
            f"--val-resize {resize} is below --image-size {image_size}; give {min(size)} or more"
        )
    crop = functools.partial(crops.centre_crop, resize=resize)
    return crops.Transform(crop, (), size, mean, std)


def _function(augmentation: Spec) -> Callable[..., Any]:
    if augmentation.name in augmentations.AUGMENTATIONS:
        function = augmentations.AUGMENTATIONS[augmentation.name].load()
        return functools.partial(function, **augmentation.hyperparameters)
    return as_user_code(
        f"--augment {augmentation.name}", import_path.load_callable("--augment", augmentation.name)
    )
