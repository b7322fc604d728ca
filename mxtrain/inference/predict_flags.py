"""The flags of `mxtrain.predict`, and what of them is refused before a net is loaded.

The command itself is `predict.py`; what it shares with the function, `predictor.py`'s options.
"""

from __future__ import annotations

import argparse
import glob
import os
from pathlib import Path, PurePath

from mxtrain.config.flags.arguments import Parser
from mxtrain.config.values import addresses
from mxtrain.config.values.addresses import Address
from mxtrain.core import outputs, regular_files
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data import input_files
from mxtrain.inference import trained_run
from mxtrain.inference.predictor import PredictOptions
from mxtrain.inference.text_generation import SamplingOptions

FORMATS = ("table", "lines", "jsonl", "csv", "coco", "npz", "npy")


def parser() -> Parser:
    """Return the parser of this command's flags."""
    flags = trained_run.parser(
        "predict",
        "Tell what a trained net says of pictures and the like, or write on after a prompt.",
        takes="inputs",
    )
    flags.add_argument(
        "inputs",
        nargs="*",
        type=addresses.path,
        metavar="[RUN] INPUT",
        help="files, folders, patterns, .rec files and addresses of such, after the run unless --run names it; - reads "
        "paths from stdin",
    )
    flags.add_argument(
        "--text",
        action="append",
        default=[],
        help="a text itself, for a net that classifies texts or words; may be repeated; - reads one a line from stdin",
    )
    flags.add_argument("--top", type=int, default=3, help="how many classes are named for each picture")
    of_several = (
        "of several labels a picture, those above this probability are named, and of boxes those above this score: 0.5 "
        "when left out, with --format coco 0"
    )
    flags.add_argument("--threshold", type=float, help=of_several)
    formats = "table on a terminal and lines elsewhere when left out, or what the name of --out ends in"
    flags.add_argument("--format", choices=FORMATS, help=formats)
    flags.add_argument(
        "--out", type=Path, metavar="FILE", help="write answers into a file, which is whole or not there"
    )
    trained_run.add_hold(flags)
    flags.add_argument("--embed", action="store_true", help="give features, what the last layer takes")
    _add_pictures(flags)
    for flag, number_type, meaning in (
        ("--max-tokens", int, "the most tokens that are written"),
        ("--temperature", float, "below 1 likely tokens come more often; 0: the likeliest always"),
        ("--top-k", int, "draw from so many of the likeliest tokens; 0: from all"),
        ("--top-p", float, "draw from the likeliest tokens that together have this share"),
        ("--seed", int, "the same one draws the same text"),
    ):
        default = getattr(SamplingOptions, flag[2:].replace("-", "_"))
        flags.add_argument(flag, type=number_type, default=default, help=meaning)
    flags.add_argument(
        "--prompt",
        action="append",
        metavar="TEXT",
        help="beginning of a text, for a language model; may be repeated",
    )
    return flags


def _add_pictures(flags: Parser) -> None:
    """Add the flags of pictures that are written, and of mistakes."""
    flags.add_argument(
        "--draw",
        type=Path,
        metavar="FOLDER",
        help="write pictures there, with the boxes or masks that are found",
    )
    flags.add_argument(
        "--masks",
        type=Path,
        metavar="FOLDER",
        help="write masks there, PNGs whose pixels are numbers of classes",
    )
    of_labels = (
        "the worst mistakes among labelled samples: a .rec, a table with its targets, a folder of class folders, or "
        "the run's own --val"
    )
    flags.add_argument("--mistakes", type=int, metavar="N", help=of_labels)
    of_table = "of a table with --mistakes: the columns that are to be predicted, joined by commas"
    flags.add_argument("--target", help=of_table)
    flags.add_argument(
        "--mistakes-out", type=Path, metavar="FOLDER", help="write the pictures of mistakes there"
    )


def sampling_of(options: argparse.Namespace) -> SamplingOptions:
    """Return how a language model writes, as the flags say."""
    return SamplingOptions(
        options.max_tokens, options.temperature, options.top_k, options.top_p, options.seed
    )


def options_of(flags: argparse.Namespace) -> PredictOptions:
    """Return what is to be said of inputs, as the flags say."""
    return PredictOptions(*(getattr(flags, name) for name in PredictOptions._fields))


def check_inputs(options: argparse.Namespace) -> None:
    """Refuse words that do not go together, and files of which none is there, before any net is loaded."""
    words = options.inputs
    if options.prompt:
        sampling_of(options).check()
        if words or options.text:
            also = words[0] if words else "--text"
            raise UsageError(f"--prompt: leave {also} out; one command takes prompts or files")
        return
    if options.json and options.format not in (None, "jsonl"):
        raise UsageError(
            f"--json: is --format jsonl, and --format says {options.format}; leave one of them out"
        )
    if options.mistakes is not None and options.text:
        raise UsageError("--text has no labels to be mistaken about; leave it or --mistakes out")
    if options.mistakes is not None and len(words) > 1:
        raise UsageError(f"--mistakes: takes one input; leave {words[1]} out, or join .rec files by commas")
    if options.mistakes is not None:
        return
    if options.mistakes_out:
        raise UsageError("--mistakes-out: goes with --mistakes N")
    if not words and not options.text:
        raise UsageError(
            "give the files that are to be judged, --text TEXT for a net that classifies texts, or --prompt TEXT for a "
            "language model"
        )
    problems = [_problem(word) for word in words]
    if problems and all(problems):
        raise DataError(f"{words[0]}: {problems[0]}")


def _problem(word: PurePath) -> str | None:
    """Return why a word is no input; None where it is one, or only reading shows it."""
    if isinstance(word, Address) or str(word) == "-" or os.path.isdir(word) or glob.has_magic(str(word)):
        return None
    return regular_files.problem(word)


def check_pictures(options: argparse.Namespace, has_boxes: bool, has_masks: bool) -> None:
    """Refuse what is of boxes and masks alone for a net that finds none, or beside what is neither."""
    flags = {
        f"--draw {options.draw}": options.draw,
        f"--masks {options.masks}": options.masks,
        "--format coco": options.format == "coco",
    }
    for flag in (flag for flag, is_set in flags.items() if is_set):
        if not (has_masks or (has_boxes and not flag.startswith("--masks"))):
            what, task = ("masks", "segmentation") if flag.startswith("--masks") else ("boxes", "detection")
            raise UsageError(f"{flag}: is for {what}, and the run's task is not {task}; leave it out")
        for other in ("embed", "mistakes"):
            if getattr(options, other):
                raise UsageError(
                    f"{flag}: is for what is found in pictures, and --{other} asks for others; leave one of them out"
                )


def check_outputs(options: argparse.Namespace) -> None:
    """Refuse to write over an input, and among files that are there already."""
    out = options.out
    for word in options.inputs:
        outputs.refuse_input("--out", out, word)  # what else is read is compared when it is opened
    if input_files.LISTED in (*map(str, options.inputs), *options.text):
        outputs.refuse_input("--out", out, input_files.stdin())
    for flag, folder in (
        ("--mistakes-out", options.mistakes_out),
        ("--draw", options.draw),
        ("--masks", options.masks),
    ):
        if folder and folder.exists() and not folder.is_dir():
            raise UsageError(f"{flag} {folder}: is a file; give a folder")
        if folder and folder.exists() and any(folder.iterdir()):
            raise UsageError(f"{flag} {folder}: holds files already; give a new folder, or an empty one")
