"""The types of sources: `--from`. To add one is an entry here, and a function in a file beside this one.

Owns what is known of a type before its reader is imported. How one is recognised is `recognise.py`'s.
"""

from __future__ import annotations

import dataclasses

from mxtrain.config.components.component import Component, by_name


@dataclasses.dataclass(frozen=True)
class SourceType(Component):
    """A type of sources; its factory is a function of the path, and of those options that it takes, to a `Source`."""

    suffixes: tuple[str, ...] = ()  # of files that are of it, unless their first bytes tell more
    options: tuple[str, ...] = ()  # of `SourceOptions`


def _type(
    name: str, help: str, reader: str, suffixes: str = "", options: str = "", folder: str = "formats"
) -> SourceType:
    return SourceType(
        name,
        help,
        f"{__package__}.{folder}.{reader}",
        suffixes=tuple(suffixes.split()),
        options=tuple(options.split()),
    )


SOURCE_TYPES = by_name(
    _type("folder", "a folder per class", "folder:read_folder"),
    _type("lst", "MXNet's .lst", "listing:read_lst", ".lst", "root multi_label"),
    _type("csv", "CSV or TSV of path,label", "listing:read_table", ".csv .tsv", "root multi_label"),
    _type("rec", ".rec, one or a folder of them", "rec:read_rec", ".rec", "multi_label"),
    _type("webdataset", ".tar, one or a folder of them", "tar:read_tars", ".tar", "multi_label unlabelled"),
    _type(
        "tfrecord",
        "TFRecord of tf.train.Example, one or a folder of them",
        "tfrecord:read_tfrecords",
        ".tfrecord .tfrecords",
        "multi_label unlabelled",
    ),
    _type("lmdb", "Caffe's LMDB", "caffe:read_lmdb", ".mdb"),
    _type(
        "hdf5",
        "HDF5 with images and labels",
        "hdf5:read_hdf5",
        ".h5 .hdf5",
        "multi_label unlabelled",
    ),
    _type("text", ".txt, a folder of them, or .jsonl", "text:read_text", ".txt .jsonl .ndjson"),
    _type(
        "labelled_text",
        "a folder of .txt per class, or .jsonl of text and label",
        "labelled_text:read_labelled_text",
    ),
    _type(
        "tagged_text",
        ".jsonl of tokens and labels, or CoNLL columns",
        "labelled_text:read_tagged_text",
        ".conll .bio",
    ),
    _type(
        "arrays",
        "CSV, Parquet, HDF5, .npz or .npy of numbers",
        "table:read_arrays",
        ".npz .npy .parquet",
        "columns",
    ),
    _type(
        "ids",
        "CSV, TSV, Parquet, HDF5 or .npz with columns of ids",
        "table:read_ids",
        options="columns scratch",
    ),
    _type("voc", "Pascal VOC's folder, or a list in its ImageSets", "voc:read_voc", folder="boxes"),
    _type("coco", "COCO's JSON of boxes", "coco:read_coco", ".json", "root", folder="boxes"),
    _type("yolo", "a folder of pictures with YOLO's texts", "yolo:read_yolo", folder="boxes"),
    _type("boxes", "CSV or TSV with a row for each box", "lists:read_csv", options="root", folder="boxes"),
    _type("lst_boxes", ".lst with labels of boxes", "lists:read_lst", options="root", folder="boxes"),
    _type(
        "masks",
        "a folder of pictures beside one of masks, Pascal VOC's, ADE20K's or Cityscapes', or a list of VOC's",
        "folders:read_masks",
        folder="masks",
    ),
    _type(
        "coco_masks",
        "COCO's JSON of polygons and runs",
        "annotations:read_coco_masks",
        options="root",
        folder="masks",
    ),
    _type(
        "yolo_masks",
        "a folder of pictures with YOLO's polygons",
        "annotations:read_yolo_masks",
        folder="masks",
    ),
    _type("mask_list", "CSV or TSV of picture,mask", "lists:read_list", options="root", folder="masks"),
    _type("rec_boxes", ".rec with labels of boxes", "lists:read_rec", folder="boxes"),
)
