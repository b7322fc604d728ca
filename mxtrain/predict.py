"""`python -m mxtrain.predict [RUN] INPUT...`: what a trained net says of pictures and more; as a function, `predict`.

With `--embed` it gives features, with `--mistakes` the worst mistakes among samples that have labels, and with
`--prompt TEXT` a language model writes on (`inference/text_generation.py`).
"""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from mxtrain.core import interrupts

    interrupts.exit_on_signal("mxtrain.predict")

import argparse
import glob
import json
import os
from pathlib import Path
from typing import Any, NoReturn, Sequence

from mxtrain.config.flags.arguments import Parser
from mxtrain.core import outputs, plain_text, regular_files
from mxtrain.core.errors import DataError, UsageError, one_line
from mxtrain.data import input_files
from mxtrain.inference import predictor as predictors
from mxtrain.inference import printing, text_generation, trained_run
from mxtrain.inference.predictor import Predictor
from mxtrain.inference.text_generation import SamplingOptions

__all__ = ["SamplingOptions", "main", "predict"]
PROGRAM = "mxtrain.predict"
FORMATS = ("table", "lines", "jsonl", "csv", "npz", "npy")


def predict(
    trained: Any,
    inputs: Any = (),
    *,
    prompts: Sequence[str] | None = None,
    sampling: SamplingOptions | None = None,
    top: int | None = None,
    threshold: float = 0.5,
    embed: bool = False,
    mistakes: int | None = None,
    target: str | None = None,
    checkpoint: str | None = None,
    devices: str = "cpu",
    net: Any = None,
    task: Any = None,
) -> list[dict[str, Any]]:
    """Return what a trained net says of each input, as the run's task shows it: `{"classes": [...]}` for pictures.

    Args:
        trained: a run folder, a folder in its checkpoints/, or the `Result` of `fit`.
        inputs: a list or a generator of paths, arrays, or what else the task takes; or a single path. A picture is the
            path of a file, its bytes, or an array of uint8 (height, width, 3). The path of a folder, a .rec, a table
            or a pattern stands for all the samples in it, whose answers begin with their names, `image` or `input`.
        prompts: for a language model, and in the place of inputs: the beginnings of texts. An answer has `prompt`,
            `text`, `num_tokens`, and whether the document `has_ended`.
        sampling: how much it writes, and how tokens are drawn, as in SamplingOptions(max_tokens=50, temperature=0.8).
        top: how many classes each answer names; all when left out.
        threshold: of several labels a picture, those are `present` whose probability is above it.
        embed: True for `{"features": array}` in the place of answers, what the last layer takes, float32.
        mistakes: how many of the worst mistakes to return in the place of answers, the largest loss first. Inputs are
            then samples with labels: a folder with a folder for each class, or what `evaluate` takes as `val`; the
            run's own when left out.
        target: the columns of a table of such samples that are to be predicted; the run's own when left out.
        checkpoint: "best" (when left out), "latest", a step, or the path of one.
        devices: "cpu" or "gpu:0"; the first of them computes.
        net: in the place of the run's, which a folder does not hold if it was an object. It gets the checkpoint's
            weights, and afterwards its own again if it has some.
        task: the same for the task.

    Raises:
        UsageError, DataError: as the command says them; DataError for the first input that is none.
    """
    from mxtrain.train.library import process_isolation

    _check_options(1 if top is None else top, threshold, mistakes, embed, prompts, target)
    is_single = isinstance(inputs, (str, os.PathLike))
    if isinstance(inputs, bytes) or not (is_single or hasattr(inputs, "__iter__")):
        raise UsageError(f"predict: inputs is a {type(inputs).__name__}; give a list of them, or a path")
    instead = {"model": net, "task": task, "target": target}
    if mistakes and not is_single and not (isinstance(inputs, tuple) and not inputs):
        instead["val"] = inputs
    with process_isolation.isolated_run():
        opened = predictors.open_run(trained, checkpoint, devices, instead, with_losses=bool(mistakes))
        if prompts is not None:
            writer, sampling = (
                text_generation.language_model(opened.task, trained),
                sampling or SamplingOptions(),
            )
            sampling.check()
            with predictors.open_predictor(opened, devices) as predictor:
                return list(
                    text_generation.write(writer, predictor.net, predictor.context, prompts, sampling)
                )
        with predictors.open_predictor(opened, devices) as predictor:
            if mistakes:
                found = predictor.worst_mistakes(os.fspath(inputs) if is_single else None, mistakes, _raise)
                return [{predictor.noun: each.input.name, **each.shown} for each in found.worst]
            return _answers(predictor, [inputs] if is_single else inputs, top, threshold, embed)


def _answers(
    predictor: Predictor, inputs: Any, top: int | None, threshold: float, embed: bool
) -> list[dict[str, Any]]:
    """Return the answers to inputs; DataError for the first that is none."""
    from mxtrain.inference.input_samples import Inputs

    found = []
    for each, shown in predictor.predict(Inputs(predictor.task, inputs), top, threshold, embed):
        if isinstance(shown, DataError):
            raise shown
        found.append({**({predictor.noun: each.name} if each.is_part else {}), **shown})
    return found


def _raise(error: DataError) -> NoReturn:
    raise error


def main(argv: Sequence[str] | None = None) -> int:
    return one_line(PROGRAM, lambda: command(argv))


def command(argv: Sequence[str] | None = None) -> None:
    """Print what the net says of each input that the arguments name."""
    options = parser().parse_args(argv)

    from mxtrain.checkpoint import run_folder
    from mxtrain.core import interrupts

    options.run, options.inputs = trained_run.with_inputs(options, options.inputs)
    _check_options(
        options.top, options.threshold, options.mistakes, options.embed, options.prompt, options.target
    )
    _check_inputs(options)
    _check_outputs(options)
    # or mxnet's logging would put its marks before our lines
    run_folder.start_log("error" if options.quiet else "warning")
    of_mistakes = options.mistakes is not None
    instead = {"target": options.target}
    opened = predictors.open_run(options.run, options.checkpoint, options.devices, instead, of_mistakes)
    trained_run.refuse_output("--out", options.out, opened.checkpoint)
    if options.prompt:
        text_generation.language_model(opened.task, options.run)
    options.inputs += _texts(options, opened.task)
    tell = _write_on if options.prompt else printing.mistakes if of_mistakes else printing.print_predictions
    with predictors.open_predictor(opened, options.devices) as predictor, interrupts.stopped_by_signal(
        PROGRAM
    ):
        tell(options, predictor)


def _write_on(options: argparse.Namespace, predictor: Predictor) -> None:
    """Print what the language model writes after each prompt, as it is written."""
    sampling = _sampling(options)
    task = text_generation.language_model(predictor.task, options.run)

    def show(number: int, piece: str) -> None:
        print(piece, end="", flush=True)

    for number, prompt in enumerate(options.prompt):
        if options.json:
            (answer,) = text_generation.write(
                task, predictor.net, predictor.context, [prompt], sampling, first=number
            )
            print(json.dumps(answer), flush=True)
            continue
        show(number, ("\n" if number else "") + prompt)
        list(
            text_generation.write(
                task, predictor.net, predictor.context, [prompt], sampling, show, first=number
            )
        )
        print(flush=True)


def _sampling(options: argparse.Namespace) -> SamplingOptions:
    return SamplingOptions(
        options.max_tokens, options.temperature, options.top_k, options.top_p, options.seed
    )


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
        type=Path,
        metavar="[RUN] INPUT",
        help="files, folders, patterns and .rec files, after the run unless --run names it; - reads paths from stdin",
    )
    flags.add_argument(
        "--text",
        action="append",
        default=[],
        help="a text itself, for a net that classifies texts or words; may be repeated; - reads one a line from stdin",
    )
    flags.add_argument("--top", type=int, default=3, help="how many classes are named for each picture")
    of_several = "of several labels a picture, those above this probability are named"
    flags.add_argument("--threshold", type=float, default=0.5, help=of_several)
    formats = "table on a terminal and lines elsewhere when left out, or what the name of --out ends in"
    flags.add_argument("--format", choices=FORMATS, help=formats)
    flags.add_argument(
        "--out", type=Path, metavar="FILE", help="write answers into a file, which is whole or not there"
    )
    flags.add_argument("--embed", action="store_true", help="give features, what the last layer takes")
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
    for flag, kind, meaning in (
        ("--max-tokens", int, "the most tokens that are written"),
        ("--temperature", float, "below 1 likely tokens come more often; 0: the likeliest always"),
        ("--top-k", int, "draw from so many of the likeliest tokens; 0: from all"),
        ("--top-p", float, "draw from the likeliest tokens that together have this share"),
        ("--seed", int, "the same one draws the same text"),
    ):
        default = getattr(SamplingOptions, flag[2:].replace("-", "_"))
        flags.add_argument(flag, type=kind, default=default, help=meaning)
    flags.add_argument(
        "--prompt",
        action="append",
        metavar="TEXT",
        help="beginning of a text, for a language model; may be repeated",
    )
    return flags


def _check_options(
    top: int, threshold: float, mistakes: int | None, embed: bool, prompts: Any, target: str | None
) -> None:
    if top < 1:
        raise UsageError(f"--top {top}: give 1 or more")
    if not 0 <= threshold <= 1:
        raise UsageError(f"--threshold {threshold:g}: give a probability from 0 to 1")
    if mistakes is not None and mistakes < 1:
        raise UsageError(f"--mistakes {mistakes}: give 1 or more")
    if target is not None and mistakes is None:
        raise UsageError(f"--target {target}: goes with --mistakes N; answers need none")
    text_generation.check_prompts(prompts or ())
    modes = {"--embed": embed, "--mistakes": mistakes, "--prompt": prompts}
    both = [flag for flag, value in modes.items() if value]
    if len(both) > 1:
        raise UsageError(f"{both[0]} and {both[1]} are two questions; leave one of them out")


def _check_outputs(options: argparse.Namespace) -> None:
    """Refuse to write over an input, and among files that are there already."""
    out, folder = options.out, options.mistakes_out
    for word in options.inputs:
        outputs.refuse_input("--out", out, word)  # what else is read is compared when it is opened
    if input_files.LISTED in (*map(str, options.inputs), *options.text):
        outputs.refuse_input("--out", out, input_files.stdin())
    if folder and folder.exists() and not folder.is_dir():
        raise UsageError(f"--mistakes-out {folder}: is a file; give a folder")
    if folder and folder.exists() and any(folder.iterdir()):
        raise UsageError(f"--mistakes-out {folder}: holds files already; give a new folder, or an empty one")


def _check_inputs(options: argparse.Namespace) -> None:
    """Refuse words that do not go together, and files of which none is there, before any net is loaded."""
    words = options.inputs
    if options.prompt:
        _sampling(options).check()
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


def _texts(options: argparse.Namespace, task: Any) -> list[str]:
    """Return the texts of --text, with those of stdin in the place of -."""
    from mxtrain.tasks.texts import TextTask

    if options.text and not isinstance(task, TextTask):
        raise UsageError(f"--text: {options.run} classifies no texts; leave it out, and give files")
    texts: list[str] = []
    for text in options.text:
        lines = plain_text.split_lines(_stdin()) if text == "-" else [text]
        texts += filter(str.strip, lines)
    return texts


def _stdin() -> str:
    """Return what stdin holds; bytes that are no UTF-8 are told with the text that they lie in."""
    with open(input_files.stdin(), "rb", closefd=False) as file:
        return file.read().decode(errors="surrogateescape")


def _problem(word: Path) -> str | None:
    """Return why a word is no input; None where it is one, or only reading shows it."""
    if str(word) == "-" or os.path.isdir(word) or glob.has_magic(str(word)):
        return None
    return regular_files.problem(word)


if __name__ == "__main__":
    raise SystemExit(main())
