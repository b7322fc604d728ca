"""The output of the predict command: answers or mistakes of the net, and on stderr what could not be read.

Its words are those of the command's flags.
"""

from __future__ import annotations

import argparse
import functools
import sys
from typing import TYPE_CHECKING, Any, Callable, Mapping, Sequence

from mxtrain.core.errors import DataError
from mxtrain.inference import predict_flags
from mxtrain.inference.predictor import Predictor

if TYPE_CHECKING:
    from mxtrain.data.decode.jpeg import Pixels
    from mxtrain.inference.input_samples import Inputs

PROGRAM = "mxtrain.predict"


def print_predictions(options: argparse.Namespace, predictor: Predictor) -> None:
    """Print answers, or write them into a file, and what cannot be answered."""
    from mxtrain.inference import mask_outputs, output_files, row_formats
    from mxtrain.inference.input_samples import Inputs
    from mxtrain.tasks import registry as tasks

    format = output_files.format_of("jsonl" if options.json else options.format, options.out, options.embed)
    class_names = predictor.task.description.get("class_names", ())
    row_format = row_formats.RowFormat(
        predictor.noun, tasks.prediction_of(predictor.task).in_words, class_names
    )
    row = None if format in output_files.OF_FEATURES else row_formats.row_of(format, row_format)
    inputs, num_bad, num = Inputs(predictor.task, options.inputs, options.out), 0, 0
    question = predict_flags.options_of(options)
    if format == "coco" and question.threshold is None:
        question = question._replace(threshold=0.0)  # average precision is made of all
    write_pictures = _pictures(options, class_names)
    with output_files.opened(options.out, format, row) as write:
        for sample, shown in predictor.predict(inputs, question):
            num += 1
            if not isinstance(shown, DataError):
                pixels = _pixels_of(sample.name, sample.picture) if sample.picture else None
                if format == "coco" and "mask" in shown and pixels:
                    shown = {**shown, "mask": mask_outputs.mask_of(pixels(), shown)}
                write(sample.name, shown)
                if pixels:
                    write_pictures(sample.name, pixels, shown)
                continue
            if len(options.inputs) == 1 and not sample.is_part:
                raise shown
            num_bad += 1
            _say(str(shown))
    _rest(options, predictor, inputs, num - num_bad)
    if num_bad:
        raise DataError(f"{num_bad} of {num} inputs could not be read; they are named above")


def _pixels_of(name: str, read: Callable[[], bytes]) -> Callable[[], Pixels]:
    """Return the function that reads and decodes a picture, once, if it is called."""
    from mxtrain.inference import picture_files

    return functools.lru_cache(maxsize=None)(lambda: picture_files.pixels_of(name, read()))


def _pictures(
    options: argparse.Namespace, class_names: Sequence[str]
) -> Callable[[str, Callable[[], Pixels], Mapping[str, Any]], None]:
    """Return the function that writes the files that are wanted of a picture, by what is shown of it."""
    from mxtrain.inference import box_outputs, mask_outputs, picture_files

    def draw(pixels: Pixels, shown: Mapping[str, Any]) -> Pixels:
        if "mask" in shown:
            return mask_outputs.drawn(pixels, shown, class_names)
        return box_outputs.drawn(pixels, shown, class_names)

    files: list[Any] = [picture_files.DrawnPictures(options.draw, draw)] if options.draw else []
    files += [mask_outputs.MaskFiles(options.masks, class_names)] if options.masks else []

    def write(name: str, pixels: Callable[[], Pixels], shown: Mapping[str, Any]) -> None:
        for each in files:
            each.write(name, pixels(), shown)

    return write


def _rest(options: argparse.Namespace, predictor: Predictor, inputs: Inputs, num_answers: int) -> None:
    """Say what was left out of folders, and how much there is in a file."""
    if options.quiet:
        return
    for folder in inputs.folders:
        if folder.left_out:
            suffixes = ", ".join(f"{suffix} {count}" for suffix, count in folder.left_out.most_common(5))
            what = "pictures" if predictor.task.is_of_pictures else "inputs of this net"
            count = sum(folder.left_out.values())
            _say(f"{folder.path}: left out {count} files that are no {what} by their names ({suffixes})")
    if options.out:
        _say(f"{num_answers} answers in {options.out}")


def mistakes(options: argparse.Namespace, predictor: Predictor) -> None:
    """Print the worst mistakes, and write their pictures where that was asked for."""
    from mxtrain.inference import output_files, row_formats, worst_mistakes

    format = output_files.format_of(
        "jsonl" if options.json else options.format, options.out, of_features=False
    )
    row = row_formats.row_of(format, row_formats.RowFormat(predictor.noun, worst_mistakes.in_words))
    bad: list[DataError] = []

    def note(error: DataError) -> None:
        bad.append(error)
        _say(str(error))

    source = str(options.inputs[0]) if options.inputs else None
    worst = predictor.worst_mistakes(source, options.mistakes, note, options.out)
    with output_files.opened(options.out, format, row) as write:
        for each in worst.worst:
            write(each.input.name, each.shown)
    if options.mistakes_out:
        worst_mistakes.write_pictures(options.mistakes_out, worst.worst)
    if not options.quiet:
        _say(f"{worst.num_mistakes} mistakes among {worst.num_samples} samples")
    if bad:
        raise DataError(
            f"{len(bad)} of {worst.num_samples + len(bad)} inputs could not be read; they are named above"
        )


def _say(line: str) -> None:
    print(f"{PROGRAM}: {line}", file=sys.stderr, flush=True)
