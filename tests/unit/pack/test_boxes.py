"""Pictures with boxes: the same records from every format, what other readers make of them, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

from mxtrain.core.errors import DataError, Stop, UsageError
from mxtrain.core.opencv import cv2
from mxtrain.data.boxes import box_drawing, box_labels
from mxtrain.data.packing.options import Options
from mxtrain.data.packing.pack import pack
from mxtrain.data.records.record_file import classes_path, open_records
from mxtrain.data.records.record_writer import RecordWriter
from tools.im2rec_wrapper.checking.check import check
from tools.im2rec_wrapper.show import show

WIDTH, HEIGHT = 80, 60
NAMES = ["cat", "dog"]
# Of each picture: class, x1, y1, x2, y2 in pixels, flag.
BOXES: dict[str, list[tuple[int, float, float, float, float, int]]] = {
    "a.png": [(0, 8, 6, 40, 30, 0), (1, 0, 0, 80, 60, 1)],
    "b.png": [],
    "c.png": [(1, 16, 15, 20, 45, 0)],
}
FORMATS = ["voc", "coco", "yolo", "boxes", "lst_boxes"]


def write_pictures(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(BOXES):
        cv2.imwrite(str(folder / name), np.full((HEIGHT, WIDTH, 3), 50 * number, np.uint8))


def voc_xml(boxes: Any, width: int = WIDTH, height: int = HEIGHT) -> str:
    objects = "".join(
        f"<object><name>{NAMES[each[0]]}</name><difficult>{each[5]}</difficult><bndbox><xmin>{each[1] + 1}</xmin>"
        f"<ymin>{each[2] + 1}</ymin><xmax>{each[3]}</xmax><ymax>{each[4]}</ymax></bndbox></object>"
        for each in boxes
    )
    size = f"<size><width>{width}</width><height>{height}</height><depth>3</depth></size>"
    return f"<annotation>{size}{objects}</annotation>"


def voc(folder: Path) -> Path:
    write_pictures(folder / "JPEGImages")
    (folder / "Annotations").mkdir()
    for name, boxes in BOXES.items():
        (folder / "Annotations" / f"{name[:-4]}.xml").write_text(voc_xml(boxes))
    return folder


def coco(folder: Path) -> Path:
    write_pictures(folder / "train")
    names = list(BOXES)
    images = [
        {"id": 7 + at, "file_name": name, "width": WIDTH, "height": HEIGHT} for at, name in enumerate(names)
    ]
    annotations = [
        {"id": 1, "image_id": 7 + names.index(name), "category_id": 3 * which, "iscrowd": int(flag == 2),
         "bbox": [left, top, right - left, bottom - top]}
        for name, boxes in BOXES.items() for which, left, top, right, bottom, flag in boxes
    ]  # fmt: skip
    categories = [{"id": 3, "name": "dog"}, {"id": 0, "name": "cat"}]
    (folder / "annotations").mkdir()
    path = folder / "annotations" / "instances_train.json"
    path.write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))
    return path


def yolo(folder: Path) -> Path:
    write_pictures(folder / "images" / "train")
    (folder / "labels" / "train").mkdir(parents=True)
    (folder / "data.yaml").write_text("train: images/train\nnames: {0: cat, 1: dog}\n")
    for name, boxes in BOXES.items():
        lines = [
            f"{which} {(left + right) / 2 / WIDTH} {(top + bottom) / 2 / HEIGHT} {(right - left) / WIDTH} "
            f"{(bottom - top) / HEIGHT}\n"
            for which, left, top, right, bottom, _ in boxes
        ]
        if lines:
            (folder / "labels" / "train" / f"{name[:-4]}.txt").write_text("".join(lines))
    return folder


def boxes(folder: Path) -> Path:
    write_pictures(folder)
    lines = ["filename,class,xmin,ymin,xmax,ymax"]
    for name, own in BOXES.items():
        lines += [f"{name},{NAMES[each[0]]},{','.join(map(str, each[1:5]))}" for each in own] or [
            f"{name},,,,,"
        ]
    (folder / "boxes.csv").write_text("\n".join(lines))
    return folder / "boxes.csv"


def lst_boxes(folder: Path) -> Path:
    write_pictures(folder)
    lines = []
    for number, (name, own) in enumerate(BOXES.items()):
        numbers: list[float] = [2, 5]
        for which, left, top, right, bottom, _ in own:
            numbers += [which, left / WIDTH, top / HEIGHT, right / WIDTH, bottom / HEIGHT]
        lines.append("\t".join([str(number), *map(str, numbers), name]))
    (folder / "a.lst").write_text("\n".join(lines))
    return folder / "a.lst"


WRITE: dict[str, Callable[[Path], Path]] = {
    "voc": voc,
    "coco": coco,
    "yolo": yolo,
    "boxes": boxes,
    "lst_boxes": lst_boxes,
}


def packed(source: Path, out: Path, **options: Any) -> Any:
    pack(source, out, Options(shuffle=False, **options))
    return open_records(out)


def boxes_of(records: Any) -> list[Any]:
    return [box_labels.boxes_of(label, WIDTH, HEIGHT) for label in records.label_rows()]


@pytest.mark.parametrize("kind", FORMATS)
def test_each_format_gives_the_same_records(kind: str, tmp_path: Path) -> None:
    records = packed(WRITE[kind](tmp_path / "in"), tmp_path / "out.rec", source_type=kind)
    assert len(records) == 3
    expected_names = ["0", "1"] if kind == "lst_boxes" else NAMES
    assert records.class_names == expected_names
    for found, own in zip(boxes_of(records), BOXES.values()):
        flags = [each[5] * (kind == "voc") for each in own]  # other formats have no difficult ones
        expected = [[*each[1:5], each[0], flag] for each, flag in zip(own, flags)]
        assert np.allclose(found, np.reshape(expected, (-1, 6)), atol=1e-4)
    assert cv2.imdecode(np.frombuffer(records.read(2).payload, np.uint8), 1).mean() == 100


@pytest.mark.parametrize("kind", ["voc", "yolo", "coco"])
def test_formats_are_recognised(kind: str, tmp_path: Path) -> None:
    assert len(packed(WRITE[kind](tmp_path / "in"), tmp_path / "out.rec")) == 3


def test_a_list_of_a_set_and_records_are_packed_again(tmp_path: Path) -> None:
    folder = voc(tmp_path / "in")
    (folder / "ImageSets" / "Main").mkdir(parents=True)
    chosen = folder / "ImageSets" / "Main" / "val.txt"
    chosen.write_text("c\na  1\n")
    records = packed(chosen, tmp_path / "one.rec", source_type="voc")
    with pytest.raises(UsageError, match=r"its labels are boxes; give --from rec_boxes"):
        packed(tmp_path / "one.rec", tmp_path / "two.rec")
    again = packed(tmp_path / "one.rec", tmp_path / "two.rec", source_type="rec_boxes")
    assert again.class_names == records.class_names == NAMES
    assert all(np.array_equal(one, other) for one, other in zip(records.label_rows(), again.label_rows()))
    assert [each.split("/")[-1] for each in map(again.source_names().of, (0, 1))] == ["c.png", "a.png"]


def test_crowds_are_kept_and_boxes_that_reach_outside_are_cut(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = coco(tmp_path / "in")
    content = json.loads(path.read_text())
    content["annotations"][0].update(iscrowd=1, bbox=[-20, 6, 60, 24])
    path.write_text(json.dumps(content))
    (first, _, _) = boxes_of(packed(path, tmp_path / "out.rec"))
    assert first[0].tolist() == [0, 6, 40, 30, 0, box_labels.CROWD]
    assert "1 picture(s) had boxes that reach outside" in caplog.text


def test_pictures_that_are_made_smaller_keep_their_boxes(tmp_path: Path) -> None:
    records = packed(voc(tmp_path / "in"), tmp_path / "out.rec", short_side=30)
    pixels = cv2.imdecode(np.frombuffer(records.read(0).payload, np.uint8), 1)
    assert pixels.shape[:2] == (30, 40)
    assert np.allclose(box_labels.boxes_of(records.label_rows()[0], 40, 30)[0, :4], [4, 3, 20, 15])


def test_a_turned_picture_has_the_boxes_of_what_is_shown(tmp_path: Path) -> None:
    folder = voc(tmp_path / "in")
    pixels = np.zeros((WIDTH, HEIGHT, 3), np.uint8)  # stored on its side
    jpeg = cv2.imencode(".jpg", pixels)[1].tobytes()
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    turned = jpeg[:2] + b"\xff\xe1" + (len(exif) + 2).to_bytes(2, "big") + exif + jpeg[2:]
    (folder / "JPEGImages" / "a.png").unlink()
    (folder / "JPEGImages" / "a.jpg").write_bytes(turned)
    records = packed(folder, tmp_path / "out.rec")
    assert np.allclose(boxes_of(records)[0][0, :4], [8, 6, 40, 30], atol=1e-4)
    (folder / "Annotations" / "a.xml").write_text(voc_xml(BOXES["a.png"][:1], HEIGHT, WIDTH))
    with pytest.raises(
        DataError, match=r"is 80 x 60 pixels, turned by its EXIF, and its annotation is of 60 x 80"
    ):
        packed(folder, tmp_path / "two.rec")


def test_mxnet_and_gluoncv_read_what_is_written(tmp_path: Path) -> None:
    from mxtrain import runtime
    from mxtrain.runtime import mx

    folder = voc(tmp_path / "in")
    packed(folder, tmp_path / "out.rec")
    data = runtime.load_gluoncv_module("gluoncv.data").RecordFileDetection(str(tmp_path / "out.rec"))
    assert len(data) == 3
    picture, label = data[0]
    assert picture.shape == (HEIGHT, WIDTH, 3)
    assert np.allclose(label[:, :5], [[8, 6, 40, 30, 0], [0, 0, 80, 60, 1]], atol=1e-3)
    (folder / "Annotations" / "b.xml").unlink()  # ImageDetRecordIter refuses pictures without boxes
    packed(folder, tmp_path / "two.rec")
    batches = mx.io.ImageDetRecordIter(
        path_imgrec=str(tmp_path / "two.rec"), data_shape=(3, HEIGHT, WIDTH), batch_size=2, label_pad_width=30
    )
    rows = next(iter(batches)).label[0].asnumpy()
    places = [row[4 + int(row[4]) :] for row in rows]  # behind four numbers of the iterator's and the header
    assert places[0][:5] == pytest.approx([0, 0.1, 0.1, 0.5, 0.5])


def recorded(path: Path, labels: list[list[float]], names: str = "cat\ndog\n") -> Path:
    """Write pictures whose labels, but for the header, are these."""
    with RecordWriter(path) as writer:
        for key, label in enumerate(labels):
            pixels = cv2.imencode(".png", np.full((HEIGHT, WIDTH, 3), 40 * key, np.uint8))[1].tobytes()
            writer.write(key, np.array([2, 6, *label], np.float32), pixels)
    classes_path(path).write_text(names)
    return path


GOOD = [[0, 0.1, 0.1, 0.5, 0.5, 0], [], [1, 0.2, 0.2, 0.6, 0.9, 2, 0, 0, 0, 1, 1, 1]]


def test_good_boxes_are_counted_and_nothing_is_found(tmp_path: Path) -> None:
    report = check([recorded(tmp_path / "a.rec", GOOD)])
    assert not [each for each in report.findings if each.fault != "near-duplicate"]
    assert [(each.name, each.num_images) for each in report.files[0].classes] == [("cat", 2), ("dog", 1)]


@pytest.mark.parametrize(
    ("label", "fault", "words"),
    [
        ([2, 0.1, 0.1, 0.5, 0.5, 0], "box", "of class 2: there is no such class; the list has 2"),
        ([0.5, 0.1, 0.1, 0.5, 0.5, 0], "box", "there is no such class"),
        ([0, 8, 6, 40, 30, 0], "box", "in pixels, not in shares"),
        ([0, 0.5, 0.1, 0.1, 0.5, 0], "box", "its right or lower side is before the other"),
        ([0, 0.5, 0.1, 0.5, 0.5, 0], "box", "empty"),
        ([0, 1.1, 0.1, 1.5, 0.5, 0], "box", "outside its picture"),
        ([0, -0.2, 0.1, 0.5, 0.5, 0], "odd-box", "reaches outside its picture"),
        ([0, 0.1, 0.1, 0.5, 0.5, 0] * 2, "odd-box", "there twice"),
        ([0, np.nan, 0.1, 0.5, 0.5, 0], "label", "a number that is not finite"),
        ([0, 0.1, 0.1, 0.5], "label", "which are no header of boxes"),
    ],
)
def test_check_names_the_record_of_a_wrong_box(
    label: list[float], fault: str, words: str, tmp_path: Path
) -> None:
    report = check([recorded(tmp_path / "a.rec", [*GOOD, label])])
    (finding,) = [each for each in report.findings if each.fault in ("box", "odd-box", "label")]
    assert finding.fault == fault and words in finding.text and "record 3 (key 3" in finding.text


def test_numbers_and_several_classes_are_no_boxes(tmp_path: Path) -> None:
    for labels in ([[0, 1], [1, 0]], [[6.0, 3], [1, 0.5]]):
        path = tmp_path / "a.rec"
        with RecordWriter(path) as writer:
            for key, label in enumerate(labels):
                writer.write(key, np.array(label, np.float32), b"picture")
        assert not {"box", "odd-box"} & {each.fault for each in check([path], decode=False).findings}


def test_a_sheet_has_the_boxes_on_its_pictures(tmp_path: Path) -> None:
    path, out = recorded(tmp_path / "a.rec", GOOD), tmp_path / "sheet.png"
    assert show(path, out, num=5, class_name=None, seed=0) == 3
    sheet = cv2.cvtColor(cv2.imread(str(out)), cv2.COLOR_BGR2RGB)
    for which in (0, 1):
        assert (sheet == box_drawing.colour_of(which)).all(axis=2).sum() > 50
    assert show(path, out, num=5, class_name="dog", seed=0) == 1
    with pytest.raises(DataError, match="has no picture with a box of class 'bee'"):
        show(recorded(path, GOOD, "cat\ndog\nbee\n"), out, num=5, class_name="bee", seed=0)


def edited(text: str, new: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = voc(folder) / "Annotations" / "a.xml"
        assert text in path.read_text()
        path.write_text(path.read_text().replace(text, new, 1))
        return folder

    return make


def changed(change: Callable[[Any], None]) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = coco(folder)
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))
        return path

    return make


def line_of_yolo(line: str) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        (yolo(folder) / "labels" / "train" / "a.txt").write_text(line)
        return folder

    return make


def without_picture(folder: Path) -> Path:
    (voc(folder) / "JPEGImages" / "a.png").unlink()
    return folder


def without_names(folder: Path) -> Path:
    (yolo(folder) / "data.yaml").unlink()
    return folder


def not_a_picture(folder: Path) -> Path:
    (voc(folder) / "JPEGImages" / "a.png").write_bytes(b"nothing")
    return folder


BROKEN: dict[str, tuple[Callable[[Path], Path], str]] = {
    "no XML": (edited("</annotation>", ""), "JPEGImages/a.png: Annotations/a.xml: is no XML"),
    "an XML bomb": (
        edited("<annotation>", "<!DOCTYPE b [<!ENTITY c 'd'>]><annotation>"),
        "a.xml: declares entities",
    ),
    "no name": (edited("<name>cat</name>", ""), "Annotations/a.xml: has no name in object"),
    "no bndbox": (
        edited("<bndbox><xmin>9</xmin><ymin>7</ymin><xmax>40</xmax><ymax>30</ymax></bndbox>", ""),
        "has an object cat without a bndbox",
    ),
    "a word for a number": (
        edited("<xmin>9</xmin>", "<xmin>nine</xmin>"),
        "xmin of cat is 'nine', no number",
    ),
    "sides swapped": (
        edited("<xmax>40</xmax>", "<xmax>4</xmax>"),
        "its right or lower side is before the other",
    ),
    "outside": (
        edited(
            "<xmin>9</xmin><ymin>7</ymin><xmax>40</xmax>", "<xmin>99</xmin><ymin>7</ymin><xmax>140</xmax>"
        ),
        "outside its picture, which is 80 x 60",
    ),
    "another size": (
        edited("<width>80</width>", "<width>81</width>"),
        "is 80 x 60 pixels, and its annotation is of 81 x 60",
    ),
    "not finite": (edited("<xmax>40</xmax>", "<xmax>nan</xmax>"), "a corner that is no finite number"),
    "no picture": (without_picture, "Annotations/a.xml: there is no picture a in JPEGImages"),
    "not a picture": (not_a_picture, "JPEGImages/a.png: it is no picture"),
    "no JSON": (lambda folder: _written(coco(folder), "{"), "instances_train.json is no JSON"),
    "no categories": (changed(lambda content: content.pop("categories")), "has no list of categories"),
    "an image that is not there": (
        changed(lambda content: content["annotations"][0].update(image_id=99)),
        "annotation 0 is of image_id 99, and there is no such image",
    ),
    "an unknown category": (
        changed(lambda content: content["annotations"][0].update(category_id=9)),
        "has the category_id 9, and there is no such category",
    ),
    "a negative width": (
        changed(lambda content: content["annotations"][0].update(bbox=[8, 6, -3, 4])),
        "has a bbox of width -3 and height 4",
    ),
    "three numbers": (
        changed(lambda content: content["annotations"][0].update(bbox=[8, 6, 3])),
        "has no bbox of four numbers",
    ),
    "one id twice": (
        changed(lambda content: content["images"][1].update(id=7)),
        "two of its images have the id 7",
    ),
    "one picture twice": (
        changed(lambda content: content["images"][1].update(file_name="a.png")),
        "lists a.png twice",
    ),
    "an unknown class": (
        line_of_yolo("2 .5 .5 .1 .1"),
        "a.txt: line 1 has the class 2, and there are 2, from 0",
    ),
    "four numbers": (line_of_yolo("1 .5 .5 .1"), "a.txt: line 1 has 4 numbers"),
    "pixels": (line_of_yolo("1 40 30 20 20"), "in pixels, and has to be in shares"),
    "no names of classes": (without_names, "name the classes"),
    "no column": (
        lambda folder: _written(boxes(folder), "filename,class,xmin,ymin,xmax\na.png,cat,1,2,3\n"),
        "its first line has no column ymax or y2",
    ),
    "a header that is none": (
        lambda folder: _written(lst_boxes(folder), "0\t2\t5\t1\t0.1\ta.png"),
        "line 1: its label of 4 numbers",
    ),
}


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_said_in_a_line(name: str, tmp_path: Path) -> None:
    make, words = BROKEN[name]
    source = make(tmp_path / "in")
    kind = {".csv": "boxes", ".lst": "lst_boxes"}.get(source.suffix)
    with pytest.raises(Stop) as caught:
        packed(source, tmp_path / "out.rec", source_type=kind)
    assert words in str(caught.value) and len(str(caught.value).splitlines()) == 1
    assert not (tmp_path / "out.rec").exists()
