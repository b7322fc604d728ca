"""`python -m mxtrain.predict [RUN] INPUT...`: what a trained net says of pictures and more; as a function, `predict`.

With `--embed` it gives features, with `--mistakes` the worst mistakes among samples that have labels, and with
`--prompt TEXT` a language model writes on (`inference/text_generation.py`).
"""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from mxtrain.core import interrupts

    interrupts.exit_on_signal("mxtrain.predict")

import argparse
import json
import os
from typing import TYPE_CHECKING, Any, Iterable, NoReturn, Sequence, cast

from mxtrain.config.components import choices, tasks
from mxtrain.core import plain_text
from mxtrain.core.errors import DataError, UsageError, one_line
from mxtrain.data import input_files
from mxtrain.data.arrays import program_columns
from mxtrain.inference import predict_flags, printing, text_generation, trained_run
from mxtrain.inference import predictor as predictors
from mxtrain.inference.predict_flags import parser
from mxtrain.inference.predictor import PredictOptions, Predictor
from mxtrain.inference.text_generation import SamplingOptions
from mxtrain.inference.trained_run import Trained

if TYPE_CHECKING:
    from mxtrain.tasks.task import Task

__all__ = ["SamplingOptions", "main", "parser", "predict"]
PROGRAM = "mxtrain.predict"


def predict(
    trained: Trained,
    inputs: Iterable[object] | str | os.PathLike[str] = (),
    *,
    prompts: Sequence[str] | None = None,
    sampling: SamplingOptions | None = None,
    top: int | None = None,
    threshold: float | None = None,
    embed: bool = False,
    mistakes: int | None = None,
    target: str | None = None,
    checkpoint: str | None = None,
    devices: str = "cpu",
    net: object = None,
    task: object = None,
    hold: str = choices.HOLD_ALL,
) -> list[dict[str, Any]]:
    """Return what a trained net says of each input, as the run's task shows it: `{"classes": [...]}` for pictures.

    Args:
        trained: a run folder, a folder in its checkpoints/, or the `Result` of `fit`.
        inputs: a list or a generator of paths, arrays, or what else the task takes; or a single path. A picture is the
            path of a file, its bytes, or an array of uint8 (height, width, 3). The path of a folder, a .rec, a table
            or a pattern stands for all the samples in it, whose answers begin with their names, `image` or `input`;
            so does a DataFrame, in the place of the list or in it.
        prompts: for a language model, and in the place of inputs: the beginnings of texts. An answer has `prompt`,
            `text`, `num_tokens`, and whether the document `has_ended`.
        sampling: how much it writes, and how tokens are drawn, as in SamplingOptions(max_tokens=50, temperature=0.8).
        top: how many classes each answer names; all when left out.
        threshold: of several labels a picture, those are `present` whose probability is above it, and of boxes those
            are told whose score is; 0.5 when left out.
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
        hold: "layers" reads the weights of one segment of the net at a time.

    Raises:
        UsageError, DataError: as the command says them; DataError for the first input that is none.
    """
    from mxtrain.train.library import process_isolation

    options = PredictOptions(top, threshold, embed, mistakes, prompts, target)
    options.check()
    trained_run.check_hold(hold, devices, {"embed": embed})
    single = inputs if isinstance(inputs, (str, os.PathLike)) else None
    if isinstance(inputs, bytes) or not (single is not None or hasattr(inputs, "__iter__")):
        raise UsageError(f"predict: inputs is a {type(inputs).__name__}; give a list of them, or a path")
    instead = {"model": net, "task": task, "target": target}
    if mistakes and single is None and not (isinstance(inputs, tuple) and not inputs):
        instead["val"] = inputs
    with process_isolation.isolated_run():
        opened = predictors.open_run(trained, checkpoint, devices, instead, with_losses=bool(mistakes))
        if prompts is not None:
            model = text_generation.language_model(opened.task, trained)
            sampling = sampling or SamplingOptions()
            sampling.check()
            with predictors.open_predictor(opened, devices, hold) as predictor:
                written = text_generation.write(model, predictor.net, predictor.context, prompts, sampling)
                return list(written)
        predictors.check_predicts(opened.task, with_losses=bool(mistakes))
        with predictors.open_predictor(opened, devices, hold) as predictor:
            if mistakes:
                return _worst_mistakes(predictor, single, mistakes)
            is_one = single is not None or program_columns.is_frame(inputs)
            several = [inputs] if is_one else cast("Iterable[object]", inputs)
            return _answers(predictor, several, options)


def _worst_mistakes(
    predictor: Predictor, source: str | os.PathLike[str] | None, count: int
) -> list[dict[str, Any]]:
    """Return the answers to the `count` samples of the largest losses; DataError for what is no sample."""
    found = predictor.worst_mistakes(None if source is None else os.fspath(source), count, _raise)
    return [{predictor.noun: each.input.name, **each.shown} for each in found.worst]


def _answers(predictor: Predictor, inputs: Iterable[object], options: PredictOptions) -> list[dict[str, Any]]:
    """Return the answers to inputs; DataError for the first that is none."""
    from mxtrain.inference.input_samples import Inputs

    found = []
    for each, shown in predictor.predict(Inputs(predictor.task, inputs), options):
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
    predict_flags.options_of(options).check()
    trained_run.check_hold(options.hold, options.devices, {"embed": options.embed})
    predict_flags.check_inputs(options)
    predict_flags.check_outputs(options)
    # or mxnet's logging would put its marks before our lines
    run_folder.start_log("error" if options.quiet else "warning")
    of_mistakes = options.mistakes is not None
    instead = {"target": options.target}
    opened = predictors.open_run(options.run, options.checkpoint, options.devices, instead, of_mistakes)
    trained_run.refuse_output("--out", options.out, opened.checkpoint)
    if options.prompt:
        text_generation.language_model(opened.task, options.run)
    else:
        predictors.check_predicts(opened.task, of_mistakes)
    defaults = tasks.defaults_of(opened.run.model.task)
    predict_flags.check_pictures(options, defaults.has_boxes, defaults.has_masks)
    options.inputs += _texts(options, opened.task)
    tell = _write_on if options.prompt else printing.mistakes if of_mistakes else printing.print_predictions
    with predictors.open_predictor(
        opened, options.devices, options.hold
    ) as predictor, interrupts.stopped_by_signal(PROGRAM):
        tell(options, predictor)


def _write_on(options: argparse.Namespace, predictor: Predictor) -> None:
    """Print what the language model writes after each prompt, as it is written."""
    sampling = predict_flags.sampling_of(options)
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


def _texts(options: argparse.Namespace, task: Task) -> list[str]:
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


if __name__ == "__main__":
    raise SystemExit(main())
