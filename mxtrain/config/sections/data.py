"""Flags of the input: files, decoding, augmentation."""

from __future__ import annotations

import dataclasses
from typing import Optional, Union

from mxtrain.config.sections.flag import flag
from mxtrain.config.values import sizes


@dataclasses.dataclass(frozen=True)
class Data:
    """Input: files, decoding, augmentation."""

    train: Optional[str] = flag(
        None,
        "the .rec file to train on, several joined by commas, a pattern, or module:callable that gives a Gluon Dataset "
        "or a stream",
    )
    val: Optional[str] = flag(None, "what to evaluate on after each epoch: as --train, but no DataLoader")
    pack: Optional[str] = flag(
        None,
        "a folder: what --train and --val name is packed into it first, once, and the run goes on from there",
    )
    target: str = flag(
        "",
        "of a table or file of arrays: the columns that are to be predicted, joined by commas; left out: target, "
        "label, y or class",
    )
    inputs: str = flag(
        "", "of a table: the columns that the net takes, joined by commas; left out: all others"
    )
    exclude: str = flag("", "of a table: columns that are left out, joined by commas")
    categories: str = flag(
        "",
        "of a table: columns of categories, words or numbers, each of which is an input of its own (one-hot); with "
        "--task recommendation an id whose row is looked up",
    )
    lists: str = flag("", "of a table: columns of lists of ids, joined by commas")
    list_separator: str = flag("|", "of a text: the character between the ids of a list")
    list_length: int = flag(100, "how many ids of a list count at most: the last ones")
    shared_embedding: str = flag(
        "",
        "of a table: columns of ids that have the rows of another, which an id then means in all of them, as in "
        "user=friend/follower,item=last_item",
    )
    negatives: str = flag(
        "",
        "of data that say what users have chosen: how many rows of an item that the user has not chosen are drawn "
        "beside each, with a target of 0, in every epoch others, and the columns of users, of items and of what "
        "belongs to these, as in 4:user=user,item=movie/genre; 99 beside each of --val, or val=N",
    )
    log_columns: str = flag(
        "", "of a table: columns of numbers of which the logarithm is taken, log(1 + x), joined by commas"
    )
    column_names: str = flag(
        "",
        "of a .csv or .tsv that has no line of them: the names of its columns, joined by commas, or criteo (label, I1 "
        "to I13, C1 to C26)",
    )
    missing: str = flag(
        "refuse",
        "of a table: what an empty cell or NaN becomes: refuse (it ends the run) | mean (of its column in the "
        "training set) | a number; in the latter two an input beside the column says where one is missing",
    )
    sample_weight: str = flag(
        "",
        "how much each sample counts in the loss: a column of a table, or a number beside what is to be predicted, by "
        "its name or as last; left out: all alike, or as the records were packed",
    )
    sampling: str = flag(
        "once",
        "samples of an epoch: once (each sample once) | balanced (as many samples, each class as often)",
    )
    order: str = flag(
        "permutation",
        "of the samples of an epoch: permutation (of all) | windows (of chunks of 8 MB of the files as they lie, in "
        "random order; samples are permuted in windows of 64 MB, or windows:MB), which asks an object store for each "
        "chunk once an epoch",
    )
    image_size: Union[int, str] = flag(  # noqa: UP007  # Python 3.8 evaluates it
        0,
        "height and width of the pictures that the net sees, or HEIGHTxWIDTH, as in 224x320; left out: 224, or what a "
        "detector is made for, as 512 of ssd_512_...",
    )
    val_resize: int = flag(0, "short side before the centre crop in evaluation; 0: image_size / 0.875")
    channels: int = flag(3, "of the pictures that the net sees: 3 (colours) or 1 (grey)")
    augment: str = flag(
        "",
        "augmentations joined by +, as in pad_crop:pad=2+flip or, of text, mask_spans:p=0.1; or none; or "
        "module:callable; or auto: what suits the number and the size of the training pictures, or their boxes; left "
        "out: auto of pictures' classes and boxes, none of numbers, which may not stay true, and of text",
    )
    mixup: float = flag(0.0, "mix each picture with another, by a share from Beta(ALPHA, ALPHA); 0: off")
    cutmix: float = flag(
        0.0, "put a box of another picture into each, its area from Beta(ALPHA, ALPHA); 0: off"
    )
    mean: str = flag(
        "imagenet",
        "what is subtracted from pixels of 0 to 1: imagenet | auto (the training set's) | numbers, as in 0.5,0.5,0.5",
    )
    deviation: str = flag("imagenet", "what they are divided by then: as --mean")
    normalize: str = flag(
        "auto",
        "where pixels are normalised: host (the loader) | device | auto (on a GPU, not on a CPU)",
    )
    loader: str = flag("auto", "what decodes: threads | processes | auto (threads, unless more than 8 cores)")
    loader_workers: str = flag("auto", "number of loader workers, or auto: as many as are of use")
    prefetch_mb: int = flag(256, "megabytes of batches that may be ready or being assembled")
    verify: str = flag("always", "when the checksums of records are checked: always | first-epoch | never")
    skip_bad: int = flag(
        0, "this many bad records are replaced by the next good one and counted; one more ends the run"
    )
    cache: str = flag("none", "keep decoded pictures, before augmentation: none | ram | disk")
    cache_dir: str = flag("", "the folder of --cache disk; left out: cache in the run folder")
    storage_cache: str = flag(
        "", "the folder for what is read from object stores; left out: mxtrain/storage in the user's cache"
    )
    storage_cache_mb: int = flag(20480, "megabytes of it; what was not used for longest goes")
    storage_patience: int = flag(300, "seconds for which an object store may be away before the run ends")
    num_classes: int = flag(0, "outputs of the net; 0: as many as the data set has classes")
    window: int = flag(256, "tokens of a sample of text")

    def __post_init__(self) -> None:
        """Say the size in the one way in which checkpoints keep it."""
        object.__setattr__(self, "image_size", sizes.plain(self.image_size))
