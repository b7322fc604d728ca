"""Pictures with masks: the same records from every layout, what is refused, what check finds and show draws."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
from PIL import Image

from mxtrain.core.errors import DataError
from mxtrain.core.opencv import cv2
from mxtrain.data.masks import mask_drawing, mask_format
from mxtrain.data.packing.options import Options
from mxtrain.data.packing.pack import pack
from mxtrain.data.records.record_file import classes_path, open_records
from mxtrain.data.records.record_writer import RecordWriter
from mxtrain.data.sources.masks import outlines
from tests.support.commands import ROOT
from tools.im2rec_wrapper.checking.check import check
from tools.im2rec_wrapper.show import show

WIDTH, HEIGHT = 48, 32
NAMES = ["background", "cat", "dog"]
COLOURS = [(0, 0, 0), (200, 0, 10), (0, 90, 255)]
# Of each picture: class, left, top, right, bottom of a rectangle, painted one over the other.
RECTANGLES = {"a": [(1, 4, 4, 30, 20), (2, 8, 8, 12, 12)], "b": [], "c": [(2, 0, 0, 48, 3)]}


def mask_of(name: str) -> np.ndarray:
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    for which, left, top, right, bottom in RECTANGLES[name]:
        mask[top:bottom, left:right] = which
    return mask


def write_pictures(folder: Path, end: str = ".png") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(RECTANGLES):
        cv2.imwrite(str(folder / f"{name}{end}"), np.full((HEIGHT, WIDTH, 3), 50 * number, np.uint8))


def write_masks(
    folder: Path, end: str = ".png", change: Callable[[np.ndarray], Any] = lambda mask: mask
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in RECTANGLES:
        Image.fromarray(change(mask_of(name))).save(folder / f"{name}{end}")


def names_in(folder: Path) -> None:
    (folder / "classes.txt").write_text("".join(f"{name}\n" for name in NAMES))


def plain(folder: Path) -> Path:
    write_pictures(folder / "images")
    write_masks(folder / "masks")
    names_in(folder)
    return folder


def coloured(folder: Path) -> Path:
    write_pictures(folder / "images")
    write_masks(folder / "masks", change=lambda mask: np.array(COLOURS, np.uint8)[mask])
    lines = [f"{name}:{','.join(map(str, colour))}::\n" for name, colour in zip(NAMES, COLOURS)]
    (folder / "labelmap.txt").write_text("# label:color_rgb:parts:actions\n" + "".join(lines))
    return folder


def voc(folder: Path) -> Path:
    write_pictures(folder / "JPEGImages")
    (folder / "SegmentationClass").mkdir()
    for name in RECTANGLES:
        (folder / "SegmentationClass" / f"{name}.png").write_bytes(mask_drawing.encoded(mask_of(name), 3))
    names_in(folder)
    (folder / "ImageSets" / "Segmentation").mkdir(parents=True)
    path = folder / "ImageSets" / "Segmentation" / "train.txt"
    path.write_text("".join(f"{name}\n" for name in RECTANGLES))
    return path


def ade(folder: Path) -> Path:
    write_pictures(folder / "images" / "training")
    write_masks(folder / "annotations" / "training", change=lambda mask: mask + 1)
    rows = [f"{number}\t0.1\t1\t1\t{name}, other\n" for number, name in enumerate(NAMES, 1)]
    (folder / "objectInfo150.txt").write_text("Idx\tRatio\tTrain\tVal\tName\n" + "".join(rows))
    return folder


def cityscapes(folder: Path) -> Path:
    write_pictures(folder / "leftImg8bit" / "train" / "bonn", "_leftImg8bit.png")
    write_masks(folder / "gtFine" / "train" / "bonn", "_gtFine_labelTrainIds.png")
    names_in(folder)
    return folder


def mask_list(folder: Path) -> Path:
    write_pictures(folder / "some")
    write_masks(folder / "other")
    names_in(folder)
    lines = ["picture,mask", *(f"some/{name}.png,other/{name}.png" for name in RECTANGLES)]
    (folder / "list.csv").write_text("\n".join(lines))
    return folder / "list.csv"


def corners(rectangle: tuple[int, ...]) -> list[float]:
    _, left, top, right, bottom = rectangle
    return [left, top, right, top, right, bottom, left, bottom]


def coco_masks(folder: Path, segmentation: Callable[[Any], Any] = lambda each: [corners(each)]) -> Path:
    write_pictures(folder / "train")
    images = [{"id": at, "file_name": f"{name}.png"} for at, name in enumerate(RECTANGLES)]
    annotations = [
        {"image_id": at, "category_id": each[0], "segmentation": segmentation(each)}
        for at, name in enumerate(RECTANGLES)
        for each in RECTANGLES[name]
    ]
    categories = [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}]
    path = folder / "train.json"
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))
    return path


def coco_runs(folder: Path) -> Path:
    def runs(each: tuple[int, ...]) -> dict[str, Any]:
        inside = outlines.inside_polygon(corners(each), (WIDTH, HEIGHT)).T.ravel()
        changes = np.flatnonzero(np.diff(inside)) + 1
        counts = np.diff([0, *changes.tolist(), len(inside)]).tolist()
        return {"size": [HEIGHT, WIDTH], "counts": [0, *counts] if inside[0] else counts}

    return coco_masks(folder, runs)


def yolo_masks(folder: Path) -> Path:
    write_pictures(folder / "images")
    (folder / "labels").mkdir()
    (folder / "data.yaml").write_text("names: [cat, dog]\n")
    for name, rectangles in RECTANGLES.items():
        lines = []
        for each in rectangles:
            shares = np.array(corners(each)).reshape(-1, 2) / [WIDTH, HEIGHT]
            lines.append(f"{each[0] - 1} {' '.join(map(str, shares.ravel().tolist()))}\n")
        (folder / "labels" / f"{name}.txt").write_text("".join(lines))
    return folder / "images"


LAYOUTS = {
    **{each.__name__: (each, "masks") for each in (plain, coloured, voc, ade, cityscapes)},
    "mask_list": (mask_list, "mask_list"),
    "coco_masks": (coco_masks, "coco_masks"),
    "coco_runs": (coco_runs, "coco_masks"),
    "yolo_masks": (yolo_masks, "yolo_masks"),
}


def packed(source: Path, source_type: str, out: Path, **options: Any) -> Path:
    pack(source, out, Options(source_type=source_type, shuffle=False, **options))
    return out


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_records(layout: str, tmp_path: Path) -> None:
    write, source_type = LAYOUTS[layout]
    (tmp_path / "set").mkdir()
    out = packed(write(tmp_path / "set"), source_type, tmp_path / "out.rec")
    records = open_records(out)
    assert records.class_names == NAMES and len(records) == len(RECTANGLES)
    for position, name in enumerate(RECTANGLES):
        record = records.read(position)
        picture, mask = mask_format.split(record.payload)
        assert np.array_equal(mask, mask_of(name)) and record.label == 0
        assert cv2.imdecode(np.frombuffer(picture, np.uint8), 1).shape == (HEIGHT, WIDTH, 3)
    assert not [each for each in check([out]).findings if each.is_wrong]


def test_masks_shrink_with_their_pictures(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    out = packed(plain(tmp_path / "set"), "masks", tmp_path / "out.rec", short_side=16)
    _, mask = mask_format.split(open_records(out).read(0).payload)
    assert mask.shape == (16, 24) and np.array_equal(mask, mask_of("a")[1::2, 1::2])


def test_runs_and_outlines_are_those_of_cocos_tool() -> None:
    """Runs to the bit. Its outlines are drawn at five times the size: pixels at a border may be others."""
    known = json.loads((ROOT / "tests/support/masks/coco.json").read_text())
    for each in known["runs"]:
        rows = np.array([list(map(int, row)) for row in each["rows"]])
        assert np.array_equal(outlines.inside_runs(each, (each["size"][1], each["size"][0])), rows)
    for each in known["polygons"]:
        size = each["size"][1], each["size"][0]
        own, theirs = outlines.inside_polygon(each["polygon"], size), outlines.inside_runs(each, size)
        points = np.array(each["polygon"]).reshape(-1, 2)
        length = np.hypot(*(points - np.roll(points, 1, axis=0)).T).sum()
        assert (own != theirs).sum() <= 0.7 * length and abs(
            int(own.sum()) - int(theirs.sum())
        ) <= 0.7 * length


def broken(name: str) -> Callable[[Path], Any]:
    """Return the function that makes a folder of `plain` wrong in this way."""

    def mask(content: Any) -> Callable[[Path], None]:
        return lambda folder: Image.fromarray(content).save(folder / "masks" / "a.png")

    def turned(folder: Path) -> None:
        exif = Image.Exif()
        exif[274] = 6
        Image.new("RGB", (WIDTH, HEIGHT)).save(folder / "images" / "a.png", exif=exif)

    ways: dict[str, Callable[[Path], Any]] = {
        "missing": lambda folder: (folder / "masks" / "a.png").unlink(),
        "size": mask(np.zeros((HEIGHT, WIDTH - 1), np.uint8)),
        "turned": turned,
        "class": mask(np.full((HEIGHT, WIDTH), 7, np.uint8)),
        "colour": mask(np.full((HEIGHT, WIDTH, 3), 7, np.uint8)),
        "deep": mask(np.zeros((HEIGHT, WIDTH), np.uint16)),
        "nothing": mask(np.full((HEIGHT, WIDTH), 255, np.uint8)),
        "cut": lambda folder: (folder / "masks" / "a.png").write_bytes(
            (folder / "masks" / "a.png").read_bytes()[:60]
        ),
        "no picture": lambda folder: (folder / "masks" / "a.png").write_bytes(b"no picture"),
        "lossy": lambda folder: (
            (folder / "masks" / "a.png").unlink(),
            Image.fromarray(mask_of("a")).save(folder / "masks" / "a.jpg"),
        ),
        "damaged": lambda folder: (folder / "images" / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n"),
    }
    return ways[name]


@pytest.mark.parametrize(
    "name, words",
    [
        ("missing", "has no mask: "),
        ("size", "is 48 x 32 pixels, and its mask 47 x 32; make them alike"),
        ("turned", "is 32 x 48 pixels, and its mask 48 x 32; its EXIF turns it"),
        ("class", "a pixel of its mask has class 7, and there are 3"),
        ("colour", "has colours, and nothing says whose; put labelmap.txt"),
        ("deep", "has pixels of 16 bits or more"),
        ("nothing", "no pixel of its mask counts; take it out"),
        ("cut", "its mask a.png is no whole picture"),
        ("no picture", "its mask a.png is no whole picture"),
        ("lossy", "its mask a.jpg is a JPEG, which has lost classes at borders"),
        ("damaged", "it is no picture"),
    ],
)
def test_one_bad_mask_is_told_in_a_line_with_its_file(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    folder = plain(tmp_path / "set")
    broken(name)(folder)
    with pytest.raises(DataError) as stopped:
        packed(folder, "masks", tmp_path / "out.rec")
    (line,) = str(stopped.value).splitlines()
    assert words in line and "images/a.png" in line
    out = packed(folder, "masks", tmp_path / "out.rec", skip_bad=True)
    assert len(open_records(out)) == len(RECTANGLES) - 1


@pytest.mark.parametrize(
    "segmentation, words",
    [
        (lambda each: [], "has no segmentation, a list of polygons or runs"),
        (lambda each: [[1, 2, 3, 4]], "has an outline of 4 numbers; it takes three corners or more"),
        (lambda each: [[1, 2, 3, 4, 5, "x"]], "a corner is 'x', no number"),
        (lambda each: [7], "has a polygon that is no list of numbers"),
        (
            lambda each: {"size": [3, 3], "counts": [9]},
            "has runs of the size [3, 3], and its picture is [32, 48]",
        ),
        (lambda each: {"size": [32, 48], "counts": [9]}, "has runs of 9 pixels, and its picture has 1536"),
        (lambda each: {"size": [32, 48], "counts": "\x01"}, "with a letter that is none of COCO's"),
        (lambda each: {"size": [32, 48], "counts": "`"}, "end in the middle of a number"),
        (lambda each: {"size": [32, 48], "counts": [-1, 1537]}, "no list of whole numbers"),
    ],
)
def test_broken_annotations_are_told_in_a_line(segmentation: Any, words: str, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    path = coco_masks(tmp_path / "set", segmentation)
    with pytest.raises(DataError) as stopped:
        packed(path, "coco_masks", tmp_path / "out.rec")
    (line,) = str(stopped.value).splitlines()
    assert words in line and "a.png" in line


@pytest.mark.parametrize(
    "text, words",
    [
        ("0 0.1 0.1 0.2", "line 1: has an outline of 3 numbers"),
        ("5 0 0 1 0 1 1", "line 1: has class 5, and there are 2"),
        ("0 10 10 40 10 40 30", "line 1: in pixels, and has to be in shares"),
        ("0 0 0 1 0 1 one", "line 1: a number is 'one', no number"),
    ],
)
def test_broken_texts_are_told_in_a_line(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    path = yolo_masks(tmp_path / "set")
    (tmp_path / "set" / "labels" / "a.txt").write_text(text)
    with pytest.raises(DataError) as stopped:
        packed(path, "yolo_masks", tmp_path / "out.rec")
    assert words in str(stopped.value) and "a.txt" in str(stopped.value)


@pytest.mark.parametrize(
    "name, content, words",
    [
        ("classes.txt", None, "nothing names its classes; put classes.txt there"),
        ("classes.txt", "background\n", "names 1 classes"),
        ("labelmap.txt", "cat;1,2\n", "line 1 has to be name:red,green,blue"),
        ("labelmap.txt", "cat:1,2,3::\ndog:1,2,3::\n", "line 2 has the colour of cat"),
    ],
)
def test_classes_that_are_no_list_end_the_pack(
    name: str, content: str | None, words: str, tmp_path: Path
) -> None:
    (tmp_path / "set").mkdir()
    folder = plain(tmp_path / "set")
    (folder / "classes.txt").unlink()
    if content is not None:
        (folder / name).write_text(content)
    with pytest.raises(DataError, match=words):
        packed(folder, "masks", tmp_path / "out.rec")


def test_a_line_of_a_list_is_named_by_its_number_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "classes.txt").write_text("a\nb\n")
    (tmp_path / "a.csv").write_text('picture,mask\n\n"1.png\n",m1.png\n2.png\n')
    with pytest.raises(DataError, match=r"a\.csv: line 5 has no two cells"):
        packed(tmp_path / "a.csv", "mask_list", tmp_path / "out.rec")


def test_crowds_do_not_count_and_small_objects_lie_above(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    path = coco_masks(tmp_path / "set")
    content = json.loads(path.read_text())
    content["annotations"] = content["annotations"][::-1]  # the smaller one first
    content["annotations"].append(
        {"image_id": 0, "category_id": 1, "iscrowd": 1, "segmentation": [[0, 0, 48, 0, 48, 6, 0, 6]]}
    )
    path.write_text(json.dumps(content))
    _, mask = mask_format.split(
        open_records(packed(path, "coco_masks", tmp_path / "out.rec")).read(0).payload
    )
    expected = mask_of("a")
    expected[:6][expected[:6] == 0] = mask_format.IGNORED
    assert np.array_equal(mask, expected)


def test_check_finds_wrong_masks_and_show_draws_them(tmp_path: Path) -> None:
    picture = cv2.imencode(".png", np.full((HEIGHT, WIDTH, 3), 90, np.uint8))[1].tobytes()
    masks = [
        mask_of("a"),
        mask_of("a")[:-1],
        np.full((HEIGHT, WIDTH), 5, np.uint8),
        np.full((HEIGHT, WIDTH), 255, np.uint8),
    ]
    path = tmp_path / "some.rec"
    with RecordWriter(path) as writer:
        for key, mask in enumerate(masks):
            writer.write(key, 0.0, mask_format.join(picture, mask))
        writer.write(4, 0.0, picture)
        writer.write(5, 0.0, picture + b"PNG" + (3).to_bytes(4, "little") + mask_format.MAGIC)
    classes_path(path).write_text("".join(f"{name}\n" for name in NAMES))
    report = check([path])
    found = {(each.fault, each.locations[0].number): each.text for each in report.findings if each.locations}
    assert "its mask is 48 x 31 pixels, and the picture 48 x 32" in found[("mask", 1)]
    assert "has class 5, and there are 3" in found[("mask", 2)]
    assert ("empty-mask", 3) in found and "it has no mask" in found[("mask", 4)]
    assert "no PNG that can be decoded" in found[("mask", 5)]
    assert [each.num_images for each in report.files[0].classes] == [1, 1, 1]
    assert show(path, tmp_path / "sheet.png", 6, None, seed=0) == 6
    sheet = cv2.imread(str(tmp_path / "sheet.png"))[:, :, ::-1].astype(int)
    cat = np.array(mask_drawing.colour_of(1)) // 2 + 45
    assert (np.abs(sheet - cat).max(axis=2) <= 1).sum() > 500
