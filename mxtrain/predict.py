"""`python -m mxtrain.predict INPUT...`: what a trained net says of pictures and the like; as a function, `predict`.

With `--prompt TEXT` a language model writes on (`train/continuations.py`).
"""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from mxtrain.core import interrupts

    interrupts.exit_on_signal("mxtrain.predict")

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any, Iterable, Sequence

from mxtrain.config.arguments import Parser
from mxtrain.core import regular_files
from mxtrain.core.errors import DataError, UsageError, one_line
from mxtrain.train import continuations, trained_run
from mxtrain.train.continuations import Wish

__all__ = ["Wish", "main", "predict"]


def predict(
    trained: Any,
    inputs: Any = (),
    *,
    prompts: Sequence[str] | None = None,
    wish: Wish | None = None,
    top: int | None = None,
    threshold: float = 0.5,
    checkpoint: str = "best",
    devices: str = "cpu",
    net: Any = None,
    task: Any = None,
) -> list[dict[str, Any]]:
    """Return what a trained net says of each input, as the run's task shows it: `{"classes": [...]}` for pictures.

    Args:
        trained: a run folder, or the `Result` of `fit`.
        inputs: a list or a generator of paths, arrays, or what else the task takes; or a single path. A picture is the
            path of a file, or an array of uint8 (height, width, 3); a table or a file of arrays holds many samples.
        prompts: for a language model, and in the place of inputs: the beginnings of texts. An answer has `prompt`,
            `text`, `num_tokens`, and whether the document `has_ended`.
        wish: how much it writes, and how tokens are drawn, as in Wish(max_tokens=50, temperature=0.8).
        top: how many classes each answer names; all when left out.
        threshold: of several labels a picture, those are `present` whose probability is above it.
        checkpoint: "best", "latest", or the path of one.
        devices: "cpu" or "gpu:0"; the first of them computes.
        net: in the place of the run's, which a folder does not hold if it was an object. It gets the checkpoint's
            weights, and afterwards its own again if it has some.
        task: the same for the task.

    Raises:
        UsageError, DataError: as the command says them; DataError for the first input that is none.
    """
    from mxtrain.train import guest

    _check_shown(1 if top is None else top, threshold)
    is_single = isinstance(inputs, (str, os.PathLike))
    if not is_single and not hasattr(inputs, "__iter__"):
        raise UsageError(f"predict: inputs is a {type(inputs).__name__}; give a list of them, or a path")
    with guest.as_guest():
        found = trained_run.find_checkpoint(trained, checkpoint, devices)
        run = trained_run.run_of(found, trained, {"model": net, "task": task})
        task_of_run = trained_run.task_of(found, run)
        if prompts is not None:
            writer, wish = continuations.language_model(task_of_run, trained), wish or Wish()
            wish.check()
            with trained_run.net_of(found, run, devices) as (trained_net, contexts):
                return list(continuations.write(writer, trained_net, contexts[0], prompts, wish))
        with trained_run.net_of(found, run, devices) as (trained_net, contexts):
            from mxtrain.train import answers

            sources: Iterable[Any] = [inputs] if is_single else inputs
            samples = (sample for source in sources for _, sample in task_of_run.samples_in(source))
            made = answers.of(task_of_run, trained_net, contexts[0], samples)
            return [_cut(shown, top, threshold) for shown in made]


def main(argv: Sequence[str] | None = None) -> int:
    return one_line("mxtrain.predict", lambda: command(argv))


def command(argv: Sequence[str] | None = None) -> None:
    """Print what the net says of each input that the arguments name."""
    options = parser().parse_args(argv)
    _check_shown(options.top, options.threshold)
    if options.prompt:
        _write_on(options)
        return
    if not options.images:
        raise UsageError("give the files that are to be judged, or --prompt TEXT for a language model")
    problems = [regular_files.problem(image) for image in options.images]
    if all(problems):
        raise DataError(f"{options.images[0]}: {problems[0]}")

    from mxtrain.checkpoint import run_folder

    run_folder.start_log("warning")  # or mxnet's logging would put its marks before our lines
    found = trained_run.find_checkpoint(options.run, options.checkpoint, options.devices)
    run = trained_run.run_of(found, options.run, {})
    task = trained_run.task_of(found, run)
    num_bad = 0
    with trained_run.net_of(found, run, options.devices) as (net, contexts):
        from mxtrain.train import answers

        for image in options.images:
            try:
                samples = dict(task.samples_in(image))
                told = list(answers.of(task, net, contexts[0], samples.values()))
            except DataError as error:
                if len(options.images) == 1:
                    raise
                num_bad += 1
                print(f"mxtrain.predict: {error}", file=sys.stderr, flush=True)
                continue
            of_what = "image" if "image_size" in task.flags else "input"
            for name, shown in zip(samples, (_cut(each, options.top, options.threshold) for each in told)):
                line = (
                    json.dumps({of_what: name, **shown})
                    if options.json
                    else f"{name}: {task.in_words(shown)}"
                )
                print(line, flush=True)
    if num_bad:
        raise DataError(f"{num_bad} of {len(options.images)} files could not be read; they are named above")


def _write_on(options: argparse.Namespace) -> None:
    """Print what the language model writes after each prompt, as it is written."""
    from mxtrain.checkpoint import run_folder

    if options.images:
        raise UsageError(f"--prompt: leave {options.images[0]} out; one command takes prompts or files")
    wish = Wish(options.max_tokens, options.temperature, options.top_k, options.top_p, options.seed)
    wish.check()
    run_folder.start_log("warning")
    found = trained_run.find_checkpoint(options.run, options.checkpoint, options.devices)
    run = trained_run.run_of(found, options.run, {})
    task = continuations.language_model(trained_run.task_of(found, run), options.run)

    def show(number: int, piece: str) -> None:
        print(piece, end="", flush=True)

    with trained_run.net_of(found, run, options.devices) as (net, contexts):
        for number, prompt in enumerate(options.prompt):
            if options.json:
                (told,) = continuations.write(task, net, contexts[0], [prompt], wish, first=number)
                print(json.dumps(told), flush=True)
                continue
            show(number, ("\n" if number else "") + prompt)
            list(continuations.write(task, net, contexts[0], [prompt], wish, show, first=number))
            print(flush=True)


def parser() -> Parser:
    """Return the parser of this command's flags."""
    flags = trained_run.parser("predict", "Name what is in pictures, or write on after a prompt.")
    flags.add_argument("images", nargs="*", type=Path, metavar="IMAGE", help="picture files")
    flags.add_argument("--top", type=int, default=3, help="how many classes are named for each picture")
    of_several = "of several labels a picture, those above this probability are named"
    flags.add_argument("--threshold", type=float, default=0.5, help=of_several)
    for flag, kind, meaning in (
        ("--max-tokens", int, "the most tokens that are written"),
        ("--temperature", float, "below 1 likely tokens come more often; 0: the likeliest always"),
        ("--top-k", int, "draw from so many of the likeliest tokens; 0: from all"),
        ("--top-p", float, "draw from the likeliest tokens that together have this share"),
        ("--seed", int, "the same one draws the same text"),
    ):
        default = getattr(Wish, flag[2:].replace("-", "_"))
        flags.add_argument(flag, type=kind, default=default, help=meaning)
    flags.add_argument(
        "--prompt",
        action="append",
        metavar="TEXT",
        help="beginning of a text, for a language model; may be repeated",
    )
    return flags


def _check_shown(top: int, threshold: float) -> None:
    if top < 1:
        raise UsageError(f"--top {top}: give 1 or more")
    if not 0 <= threshold <= 1:
        raise UsageError(f"--threshold {threshold:g}: give a probability from 0 to 1")


def _cut(shown: dict[str, Any], top: int | None, threshold: float) -> dict[str, Any]:
    """Return an answer with its likeliest classes alone, where it has some: so many, or those above the threshold."""
    if "present" in shown:
        present = [name for name, share in shown["probabilities"].items() if share > threshold]
        return {**shown, "present": sorted(present, key=shown["probabilities"].get, reverse=True)}
    return {**shown, "classes": shown["classes"][:top]} if "classes" in shown else shown


if __name__ == "__main__":
    raise SystemExit(main())
