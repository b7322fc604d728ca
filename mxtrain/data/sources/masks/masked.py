"""Pictures with masks, whatever listed them: from pairs to the items of a source.

Owns the checks of masks against their pictures and classes, and the payload of a record (`mxtrain/data/masks/`). What
is wrong with one picture or its mask makes it a bad item, which names the file.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable, NamedTuple, Sequence

import numpy as np

from mxtrain.core import regular_files
from mxtrain.core.errors import DataError
from mxtrain.data.fields import Array
from mxtrain.data.masks import mask_format
from mxtrain.data.masks.mask_format import IGNORED, MOST_CLASSES
from mxtrain.data.sources.boxes.annotated import Size, picture_size, refuse_ill_listed
from mxtrain.data.sources.item import BadItem, Item, Source

NO_LABEL = 0.0  # of a record whose mask says all

ReadMask = Callable[[Size], Array]  # from the width and height of a picture as it is shown


class MaskedPicture(NamedTuple):
    """A picture, by its path from the root, with the way to its mask, or what is wrong with this."""

    name: str
    mask: ReadMask | None = None
    problem: str = ""
    mask_path: str = ""  # where the mask is a file of its own


def source_of(
    where: Path,
    root: Path,
    pictures: Sequence[MaskedPicture],
    class_names: Sequence[str],
    files: Sequence[Path] = (),
    warnings: Sequence[str] = (),
) -> Source:
    """Return the source of pictures with masks.

    Args:
        where: what was read, for messages.
        root: the folder that the names of pictures begin at.
        pictures: in the order in which they were listed.
        class_names: the classes, from 0 on.
        files: what was read, but for pictures and their masks.
        warnings: about what was left out.

    Returns:
        The source; DataError where nothing could be packed, or a name stands for two pictures.
    """
    refuse_ill_listed(where, [each.name for each in pictures], "leave one of them out")
    if not 2 <= len(class_names) <= MOST_CLASSES:
        raise DataError(
            f"{where}: names {len(class_names)} classes; masks tell from 2 to {MOST_CLASSES} apart"
        )
    base, num_classes = str(root), len(class_names)

    def read(item: Item) -> bytes:
        mask, problem, _ = item.location
        if mask is None:
            raise BadItem(problem)
        data = regular_files.read(os.path.join(base, item.name))
        return mask_format.join(data, _checked(mask, picture_size(data), num_classes))

    items = [Item(each.name, NO_LABEL, (each.mask, each.problem, each.mask_path)) for each in pictures]
    path_of = lambda item: os.path.join(base, item.name)  # noqa: E731
    mask_path_of = lambda item: item.location[2]  # noqa: E731
    return Source(
        items, read, class_names, warnings, list(files), path_of, mask_path_of=mask_path_of, holds_masks=True
    )


def _checked(read: ReadMask, size: Size, num_classes: int) -> Array:
    """Return the mask of a picture of this width and height; BadItem in words for one that is none."""
    try:
        mask = read(size)
    except OSError as error:
        raise BadItem(f"its mask cannot be read ({error.strerror})") from None
    if mask.shape[::-1] != tuple(size):
        wide, high = mask.shape[::-1]
        turned = "; its EXIF turns it" if (high, wide) == tuple(size) else ""
        raise BadItem(
            f"is {size[0]} x {size[1]} pixels, and its mask {wide} x {high}{turned}; make them alike"
        )
    wrong = mask_format.wrong_class(mask, num_classes)
    if wrong is not None:
        raise BadItem(
            f"a pixel of its mask has class {wrong}, and there are {num_classes}, numbered from 0 ({IGNORED}: does "
            "not count); name more, or mend the mask"
        )
    if (mask == IGNORED).all():
        raise BadItem("no pixel of its mask counts; take it out")
    return np.ascontiguousarray(mask, np.uint8)
