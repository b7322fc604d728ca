"""The augmentation of pictures with boxes that --augment describes, as one picklable value.

Owns the order: what is made of several samples first, then the changes of one, then the net's size. The functions are
`box_augmentations.py`'s, the names `config/components/augmentations.py`'s.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Callable

import numpy as np

from mxtrain.config.components import augmentations, import_path
from mxtrain.config.components.component import Spec
from mxtrain.config.values.sizes import Size
from mxtrain.core.errors import UsageError, as_user_code
from mxtrain.data.augment import box_geometry
from mxtrain.data.augment.box_geometry import Boxed
from mxtrain.data.augment.crops import Rng

Other = Callable[[], Boxed]  # draws another sample

PICTURES_OF_MOSAIC = 4


@dataclasses.dataclass(frozen=True)
class BoxTransform:
    """Changes of a picture and its boxes, one after the other, up to the size that the net sees."""

    specs: tuple[Spec, ...]
    size: Size
    is_letterboxed: bool

    @property
    def is_plain(self) -> bool:
        """True where the picture as it is is only scaled."""
        return not self.specs

    @property
    def mixes(self) -> bool:
        """True where parts of other samples go into one."""
        return any(augmentations.is_of_several(spec.name) for spec in self.specs)

    def __call__(self, of: Boxed, rng: Rng, other: Other) -> Boxed:
        """Return the augmented picture in the net's size, and its boxes."""
        for spec in self.specs:
            of = self._change(of, spec, rng, other)
        fit = box_geometry.letterboxed if self.is_letterboxed else box_geometry.resized
        return fit(of, self.size)

    def _change(self, of: Boxed, spec: Spec, rng: Rng, other: Other) -> Boxed:
        numbers = dict(spec.hyperparameters)
        if spec.name not in augmentations.BOX_AUGMENTATIONS:
            return _users(spec.name, of, rng)
        function = augmentations.BOX_AUGMENTATIONS[spec.name].load()
        if not augmentations.is_of_several(spec.name):
            changed: Boxed = function(of, rng, **numbers)
            return changed
        if rng.random() >= numbers.pop("p"):
            return of
        if spec.name == "mixup":
            mixed: Boxed = function(of, other(), rng, **numbers)
            return mixed
        others = [other() for _ in range(PICTURES_OF_MOSAIC - 1)]
        together: Boxed = function([of, *others], rng, self.size, **numbers)
        return together


def build(text: str, size: Size, is_training: bool) -> BoxTransform:
    """Build what --augment `text` describes; for an evaluation only how a picture gets the net's size."""
    is_open = text == augmentations.AUTO  # no training set has been looked at
    specs = augmentations.parse_of_boxes(augmentations.OF_BOXES if is_open else text)
    changes = tuple(spec for spec in specs if spec.name != augmentations.LETTERBOX)
    return BoxTransform(changes if is_training else (), size, is_letterboxed=len(changes) < len(specs))


def _users(name: str, of: Boxed, rng: Rng) -> Boxed:
    """Call a function of the user's, `(image, boxes, rng) -> (image, boxes)`."""
    flag = f"--augment {name}"
    made: Any = as_user_code(flag, import_path.load_callable("--augment", name))(
        of.pixels.copy(), of.boxes, rng
    )
    try:
        pixels, boxes = made
        boxes = np.asarray(boxes, np.float32)
        fits = pixels.dtype == np.uint8 and pixels.shape[2:] == (3,) and boxes.shape[1:] == (6,)
    except (TypeError, ValueError, AttributeError):
        fits = False
    if not fits:
        raise UsageError(f"{flag}: has to return a picture, uint8 (height, width, 3), and its boxes (n, 6)")
    return Boxed(pixels, boxes)
