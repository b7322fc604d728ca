"""The samples on a page: those with the largest losses, read from the run's --val by their positions.

Owns how a sample is shown: a picture as a small JPEG in the page itself, a text as text. Where the data is not there
any more, or is the user's own code, which a page does not run, the page says so.
"""

from __future__ import annotations

import base64
import functools
from pathlib import Path
from typing import Any

from mxtrain.config.components import tasks
from mxtrain.config.components.import_path import is_import_path
from mxtrain.core.errors import Stop
from mxtrain.report.evaluation import boxes_in_words
from mxtrain.report.history import History
from mxtrain.report.page.curves import is_number

SIDE = 128  # pixels of a picture's longer side
QUALITY = 85
MOST_CHARACTERS = 400  # of a text
MOST_AUGMENTED = 32
# What the page has words of its own for.
RESULT_FIELDS = ("label", "predicted", "probability", "label_probability", "answered")
BOX_FIELDS = ("boxes", "detections")
GREEN, RED = (40, 220, 60), (255, 60, 40)  # of boxes, and of detections


def worst_samples(history: History, class_names: list[str], tokenizer: str = "") -> dict[str, Any] | None:
    """Return the samples with the largest losses at the newest evaluation; None where the run has recorded none."""
    records = [record for record in history.of_kind("worst") if isinstance(record.get("samples"), list)]
    if not records:
        return None
    samples = [
        each
        for each in records[-1]["samples"]
        if isinstance(each, dict) and isinstance(each.get("sample"), int)
    ]
    config = history.config
    task, window = str(config.get("task", "classification")), config.get("window")
    shown, problem = _shown(
        *(_judged_set(config), task, tokenizer, window if isinstance(window, int) else 0),
        tuple(each["sample"] for each in samples),
        tuple(tuple(_rows(each, key) for key in BOX_FIELDS) for each in samples),
        tuple(str(each.get("answered", "")) for each in samples),
        len(class_names),
    )
    return {
        "step": records[-1]["step"],
        "problem": problem,
        "samples": [
            {
                **{"sample": each["sample"], "loss": each.get("loss"), **shown.get(each["sample"], {})},
                "label": _class_name(each.get("label"), class_names),
                "predicted": _class_name(each.get("predicted"), class_names),
                **{key: each.get(key) for key in ("probability", "label_probability")},
                "told": [
                    [key, boxes_in_words(_rows(each, key), class_names)]
                    if key in BOX_FIELDS and isinstance(value, list)
                    else [key, _in_words(value, class_names)]
                    for key, value in each.items()
                    if key not in ("sample", "loss", *RESULT_FIELDS)
                ],
            }
            for each in samples
        ],
    }


def _rows(sample: dict[str, Any], key: str) -> tuple[tuple[float, ...], ...]:
    """Return the boxes or the detections of a sample, as docs/records.md has them."""
    rows = sample.get(key)
    rows = rows if isinstance(rows, list) else []
    return tuple(
        tuple(row) for row in rows if isinstance(row, list) and len(row) >= 5 and all(map(is_number, row))
    )


def _judged_set(config: dict[str, Any]) -> str:
    """Return the data set that evaluations judge: with --overfit it is what is learnt."""
    return str(config.get("train" if config.get("overfit") else "val") or "")


@functools.lru_cache(maxsize=16)  # a live page asks again and again for the same
def _shown(
    val: str,
    task: str,
    tokenizer: str,
    window: int,
    positions: tuple[int, ...],
    boxes: tuple[Any, ...],
    masks: tuple[str, ...],
    num_classes: int,
) -> tuple[dict[int, dict[str, str]], str]:
    """Return what is shown of the samples at these positions, and one sentence where that is nothing.

    `boxes` has the boxes and the detections of each, and `masks` the answered one, which are drawn on pictures.
    """
    samples = tasks.defaults_of(task).samples
    if not val or samples not in (tasks.PICTURES, tasks.TEXTS, tasks.WINDOWS):
        return {}, ""
    if is_import_path(val):
        return (
            {},
            f"--val {val} is code, which a page does not run: samples are shown by their positions only.",
        )
    try:
        if samples == tasks.PICTURES:
            if any(masks):
                return _masked(val, positions, masks, num_classes), ""
            return _pictures(val, positions, boxes), ""
        return _texts(val, samples, tokenizer, window, positions), ""
    except (Stop, OSError, ValueError, ImportError) as error:
        return {}, f"The samples cannot be shown: {' '.join(str(error).split())}"


def _pictures(val: str, positions: tuple[int, ...], boxes: tuple[Any, ...]) -> dict[int, dict[str, str]]:
    from mxtrain.data.decode import decoding
    from mxtrain.data.sources.samples import Labels, open_samples

    records = open_samples(val, Labels(are_boxes=any(map(any, boxes))))
    found = {}
    for position, drawn in zip(positions, boxes):
        if 0 <= position < len(records):
            try:
                pixels = decoding.decode(records.read(position).payload)
            except (Stop, ValueError):
                continue  # a record that cannot be read any more
            found[position] = {"picture": jpeg_uri(pixels, *drawn)}
    return found


def _masked(
    val: str, positions: tuple[int, ...], masks: tuple[str, ...], num_classes: int
) -> dict[int, dict[str, str]]:
    """Return pictures twice, side by side: with the mask that each has, and with the one that was answered."""
    import numpy as np

    from mxtrain.data.augment.mask_transforms import nearest
    from mxtrain.data.decode import decoding
    from mxtrain.data.masks import mask_drawing, mask_format
    from mxtrain.data.sources.samples import Labels, open_samples

    records = open_samples(val, Labels(are_masks=True))
    found = {}
    for position, encoded in zip(positions, masks):
        if not 0 <= position < len(records):
            continue
        try:
            payload, mask = mask_format.split(records.read(position).payload)
            pixels, answered = decoding.decode(payload), mask_format.decoded(base64.b64decode(encoded))
        except (Stop, ValueError):
            continue  # a record that cannot be read any more
        both = [mask, mask_format.without_border(answered)]
        drawn = [mask_drawing.drawn(pixels, nearest(each, *pixels.shape[:2]), num_classes) for each in both]
        found[position] = {"picture": jpeg_uri(np.concatenate(drawn, axis=1))}
    return found


def jpeg_uri(pixels: Any, boxes: Any = (), detections: Any = ()) -> str:
    """Return RGB pixels as the address of a small picture that is in the address itself.

    Boxes and detections, whose last four numbers are corners, are drawn green and red.
    """
    from mxtrain.core.opencv import cv2

    height, width = pixels.shape[:2]
    scale = SIDE / max(height, width)
    size = max(round(width * scale), 1), max(round(height * scale), 1)
    # Small ones stay as sharp as they are: the reader wants to see what the net sees.
    resized = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_NEAREST)
    for rows, colour in ((boxes, GREEN), (detections, RED)):
        for row in rows:
            x1, y1, x2, y2 = (round(min(max(each * scale, -1), SIDE)) for each in row[-4:])
            cv2.rectangle(resized, (x1, y1), (x2, y2), colour, 1)
    _, data = cv2.imencode(
        ".jpg", cv2.cvtColor(resized, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, QUALITY]
    )
    return "data:image/jpeg;base64," + base64.b64encode(data.tobytes()).decode()


def _texts(
    val: str, samples: str, tokenizer: str, window: int, positions: tuple[int, ...]
) -> dict[int, dict[str, str]]:
    from mxtrain.data.records.record_sets import open_set
    from mxtrain.data.text import tokenizers, tokens
    from mxtrain.data.text.windows import Windows

    records: Any = open_set(val)
    known = tokens.format_of(records)
    portable = tokenizer or tokenizers.portable(known.tokenizer, Path(records.files[0]).parent)
    if tokenizers.is_code(portable):
        raise ValueError("their tokenizer is code, which a page does not run")
    decode = tokenizers.of_portable(portable).decode
    if decode is None:
        raise ValueError("their tokenizer makes no text of tokens")
    if samples == tasks.WINDOWS:
        records = Windows(records, known, window)
    texts = {}
    for position in positions:
        if 0 <= position < len(records):
            payload = records.read(position).payload
            ids = payload if samples == tasks.WINDOWS else known.ids(payload)
            words = decode([int(each) for each in ids[: 4 * MOST_CHARACTERS] if each != known.end_token])
            texts[position] = {
                "text": words if len(words) <= MOST_CHARACTERS else words[:MOST_CHARACTERS] + "…"
            }
    return texts


def _class_name(value: Any, names: list[str]) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(names):
        return names[value]
    return None if value is None else _short(value)


def _in_words(value: Any, names: list[str]) -> str:
    """Return what a task tells of a sample: labels by their names, and answers on the wrong side (docs/records.md)."""
    if not isinstance(value, list):
        return _short(value)
    words = []
    for entry in value:
        part_types = [type(part) for part in entry] if isinstance(entry, list) else []
        if part_types == [int, float]:
            words.append(f"{_class_name(entry[0], names)} {entry[1]:.0%}")
        elif part_types == [int, str, str]:
            words.append(f"word {entry[0] + 1}: {entry[1]}, taken for {entry[2]}")
        else:
            words.append(str(_class_name(entry, names)) if isinstance(entry, int) else _short(entry))
    return _short("; ".join(words) or "none")


def _short(value: Any) -> str:
    text = f"{value:.5g}" if isinstance(value, float) else str(value)
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS] + "…"


def augmented_samples(history: History) -> dict[str, Any] | None:
    """Return the samples that the run has kept of what its net saw in training; None where it has kept none."""
    folder = history.folder / "augmented"
    paths = sorted(path for path in folder.glob("*") if path.suffix in (".png", ".jpg", ".txt"))
    samples = [
        {"name": path.stem.partition(" ")[2] or path.stem, **shown}
        for path in paths[:MOST_AUGMENTED]
        if (shown := _shown_file(path))
    ]
    return {"text": "after --augment, as a batch has them", "samples": samples} if samples else None


def _shown_file(path: Path) -> dict[str, str]:
    try:
        content = path.read_bytes()
    except OSError:
        return {}
    if path.suffix == ".txt":
        return {"text": content.decode(errors="replace")[:MOST_CHARACTERS]}
    picture = _picture_uri(content)
    return {"picture": picture} if picture else {}


@functools.lru_cache(maxsize=4 * 32)
def _picture_uri(content: bytes) -> str:
    from mxtrain.data.decode import decoding

    try:
        return jpeg_uri(decoding.decode(content))
    except ValueError:
        return ""
