"""What stands in the place of a file, of any name: each source reads the others, and names the one in a line."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any, Callable, NamedTuple

import cv2
import h5py
import numpy as np
import pytest

from mxtrain.core import plain_text
from mxtrain.core.errors import DataError
from mxtrain.data.sources.samples import ONE_LABEL, Labels, open_samples
from tests.support.data import binary_sources
from tests.support.data.pictures import jpeg, picture

# A list of lines and cells can have no tab or line break in a name, and is UTF-8.
OF_FILES = ["plain", "line\nbreak", "a\ttab", "not\udcffutf-8", "-rf", "ünï 'quotes' \"\"", "x" * 200]
OF_LISTS = ["plain", "-rf", "ünï 'quotes'", "a b", "semi;colon", "x" * 200]
BOX = "<object><name>cat</name><bndbox><xmin>2</xmin><ymin>2</ymin><xmax>9</xmax><ymax>9</ymax></bndbox></object>"
BOXES, MASKS = Labels(are_boxes=True), Labels(are_masks=True)


class Made(NamedTuple):
    path: Path
    files: list[Path]  # of items


def written(folder: Path, names: list[str], suffix: str, content: Callable[[int], bytes]) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{name}{suffix}" for name in names]
    for number, file in enumerate(files):
        file.write_bytes(content(number))
    return files


def pictures(folder: Path, names: list[str]) -> list[Path]:
    return written(folder, names, ".jpg", lambda number: jpeg(picture(number, 24, 32)))


def folder(root: Path) -> Made:
    return Made(root, [*pictures(root / "a", OF_FILES), *pictures(root / "b", ["other"])])


def lst(root: Path) -> Made:
    files = pictures(root / "in", OF_LISTS)
    lines = [f"{number}\t{number % 2}\tin/{file.name}\n" for number, file in enumerate(files)]
    (root / "a.lst").write_text("".join(lines))
    return Made(root / "a.lst", files)


def csv(root: Path) -> Made:
    files = pictures(root / "in", OF_LISTS)
    lines = [f"in/{file.name},{number % 2}\n" for number, file in enumerate(files)]
    (root / "a.csv").write_text("".join(lines))
    return Made(root / "a.csv", files)


def yolo(root: Path) -> Made:
    names = [name for name in OF_FILES if "\n" not in name]
    files = pictures(root / "images", names)
    written(root / "labels", names, ".txt", lambda number: b"0 0.5 0.5 0.25 0.5\n")
    (root / "data.yaml").write_text("names: [a, b]\n")
    return Made(root, files)


def voc(root: Path) -> Made:
    size = "<size><width>32</width><height>24</height><depth>3</depth></size>"
    files = pictures(root / "JPEGImages", OF_LISTS)
    xml = lambda number: f"<annotation><filename>{files[number].name}</filename>{size}{BOX}</annotation>"  # noqa: E731
    written(root / "Annotations", OF_LISTS, ".xml", lambda number: xml(number).encode())
    return Made(root, files)


def coco(root: Path) -> Made:
    files = pictures(root / "train", [name for name in OF_FILES if "\udcff" not in name])
    images = [{"id": n, "file_name": file.name, "width": 32, "height": 24} for n, file in enumerate(files)]
    boxes = [{"id": n, "image_id": n, "category_id": 3, "bbox": [1, 1, 9, 9]} for n in range(len(files))]
    content = {"images": images, "annotations": boxes, "categories": [{"id": 3, "name": "cat"}]}
    (root / "instances_train.json").write_text(json.dumps(content))
    return Made(root / "instances_train.json", files)


def boxes(root: Path) -> Made:
    files = pictures(root, OF_LISTS)
    rows = [f"{file.name},cat,1,1,9,9\n" for file in files]
    (root / "a.csv").write_text("filename,class,xmin,ymin,xmax,ymax\n" + "".join(rows))
    return Made(root / "a.csv", files)


def masks(root: Path) -> Made:
    files = pictures(root / "images", OF_FILES)
    mask = cv2.imencode(".png", picture(1, 24, 32)[:, :, 0] % 2)[1].tobytes()
    written(root / "masks", OF_FILES, ".png", lambda number: mask)
    (root / "classes.txt").write_text("a\nb\n")
    return Made(root, files)


def mask_list(root: Path) -> Made:
    files = masks(root).files[-2:]
    lines = [f"images/{file.name},masks/{file.stem}.png\n" for file in files if '"' not in file.name]
    (root / "a.csv").write_text("picture,mask\n" + "".join(lines))
    return Made(root / "a.csv", [file for file in files if '"' not in file.name])


def texts(root: Path) -> Made:
    return Made(root, written(root / "deep", OF_FILES, ".txt", lambda number: b"words %d" % number))


def labelled_texts(root: Path) -> Made:
    files = written(root / "a", OF_FILES, ".txt", lambda number: b"words %d" % number)
    return Made(root, [*files, *written(root / "b", ["other"], ".txt", lambda number: b"other")])


SOURCES: dict[str, tuple[Callable[[Path], Made], Labels]] = {
    **{each.__name__: (each, ONE_LABEL) for each in (folder, lst, csv)},
    **{each.__name__: (each, BOXES) for each in (yolo, voc, coco, boxes)},
    **{each.__name__: (each, MASKS) for each in (masks, mask_list)},
    "texts": (texts, Labels(text_type="text")),
    "labelled texts": (labelled_texts, Labels(text_type="labelled_text")),
}
EVERY = pytest.mark.parametrize("name", SOURCES)


def made(name: str, root: Path) -> Made:
    (root / "set").mkdir()
    return SOURCES[name][0](root / "set")


def opened(name: str, root: Path) -> tuple[Any, list[Path]]:
    path, files = made(name, root)
    return open_samples(str(path), SOURCES[name][1]), files


def vanished(file: Path) -> None:
    file.unlink()


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def cut(file: Path) -> None:
    file.write_bytes(b"\xff\xfe" + file.read_bytes()[:1])


def folder_of_that_name(file: Path) -> None:
    file.unlink()
    file.mkdir()


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def link_to_nothing(file: Path) -> None:
    file.unlink()
    file.symlink_to("nowhere")


def link_to_itself(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.name)


def unreadable(file: Path) -> None:
    """Put a file there that nobody can read from its start, not even root."""
    file.unlink()
    file.symlink_to("/proc/self/mem")


FAULTS = (vanished, emptied, cut, folder_of_that_name, pipe, link_to_nothing, link_to_itself, unreadable)


def problem(records: Any, position: int) -> str | None:
    """Read an item to its end, as a loader does; return what is said of it where that fails."""
    from mxtrain.data.decode import decoding
    from mxtrain.data.decode.jpeg import BadPicture
    from mxtrain.data.masks import mask_format

    try:
        payload = records.read(position).payload
        if not hasattr(records, "payload_sizes"):
            decoding.decode(mask_format.picture_of(payload))
    except DataError as error:
        return str(error)
    except BadPicture as bad:
        return f"{records.where(position)}: {bad}"
    return None


@EVERY
def test_files_of_all_names_are_read(name: str, tmp_path: Path) -> None:
    records, files = opened(name, tmp_path)
    assert len(records) == len(files)
    assert [problem(records, position) for position in range(len(files))] == [None] * len(files)
    records.will_need(records.keys)


@EVERY
@pytest.mark.parametrize("place", [1, 2])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_one_that_is_no_file_any_more_is_named(name: str, fault: Any, place: int, tmp_path: Path) -> None:
    records, files = opened(name, tmp_path)
    fault(files[place % len(files)])
    records.will_need(records.keys)
    found = [problem(records, position) for position in range(len(files))]
    if hasattr(records, "payload_sizes") and fault is emptied:
        assert found == [None] * len(files)  # a text without words is one
        return
    (said,) = (each for each in found if each is not None)
    assert plain_text.printable(files[place % len(files)].name) in said and "\n" not in said, said


@EVERY
@pytest.mark.parametrize(
    "fault", [pipe, link_to_nothing, link_to_itself, unreadable], ids=lambda fault: fault.__name__
)
def test_one_that_never_was_a_file_keeps_no_other_from_being_read(
    name: str, fault: Any, tmp_path: Path
) -> None:
    path, files = made(name, tmp_path)
    victim = files[1 % len(files)]  # of COCO's the first says where the others lie
    fault(victim)
    records: Any = open_samples(str(path), SOURCES[name][1])
    said = [each for each in (problem(records, position) for position in range(len(records))) if each]
    assert len(records) == len(files) and len(said) == 1, said
    assert plain_text.printable(victim.name) in said[0]


def test_a_folder_with_the_name_of_a_picture_is_gone_into(tmp_path: Path) -> None:
    pictures(tmp_path / "a" / "x.jpg", ["inside"])
    (tmp_path / "a" / "y.jpg").mkdir()
    pictures(tmp_path / "b", ["other"])
    (tmp_path / "b" / "round").symlink_to(tmp_path / "b")
    records: Any = open_samples(str(tmp_path))
    assert sorted(records.where(n).partition(": ")[2] for n in range(2)) == [
        "a/x.jpg/inside.jpg",
        "b/other.jpg",
    ]


def tar(path: Path) -> None:
    with tarfile.open(path, "w") as archive:
        for number in range(8):
            for end, content in (("jpg", jpeg(picture(number))), ("cls", b"%d" % (number % 3))):
                member = tarfile.TarInfo(f"{number:03}.{end}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))


def tfrecord(path: Path) -> None:
    examples = [binary_sources.example(jpeg(picture(number)), [number % 3]) for number in range(8)]
    path.write_bytes(binary_sources.tfrecord(*examples))


def hdf5(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["images"] = np.stack([picture(number, 60, 80) for number in range(8)])
        file["labels"] = np.arange(8) % 3


def json_lines(path: Path) -> None:
    path.write_text("".join(json.dumps({"text": f"{number} " * 90}) + "\n" for number in range(8)))


ARCHIVES = {"a.tar": tar, "a.tfrecord": tfrecord, "a.h5": hdf5, "a.jsonl": json_lines}


@pytest.mark.parametrize("name", ARCHIVES)
def test_a_file_of_many_that_is_cut_while_it_is_read_is_named(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    ARCHIVES[name](path)
    records: Any = open_samples(str(path), Labels(text_type="text") if name == "a.jsonl" else ONE_LABEL)
    assert [problem(records, position) for position in range(8)] == [None] * 8
    os.truncate(path, path.stat().st_size // 2)
    found = [each for each in (problem(records, position) for position in range(8)) if each]
    assert found and all(str(path) in each and "\n" not in each for each in found), found
