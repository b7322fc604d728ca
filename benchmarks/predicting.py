"""Images a second of predict, of a .rec and of a folder, against evaluate on the same .rec, and against one at a time.

    python -m benchmarks.predicting [--nets mobilenet0.25,resnet18_v1b] [--images 96] [--rounds 5] [--json]

Pictures are those of `benchmarks.loader`, 500 x 375 JPEGs. A net is trained for one step; then it is loaded once, and
all sides take turns in one process, with the loop of their command: reading, decoding, the net, answers as JSON lines.
Shown are medians, and the CPU time of an image, which others on the machine do not move as much: the bar is on that.
Exits with 1 where predict takes more of it than evaluate by more than the bar.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

from benchmarks.harness import commands, parsing
from benchmarks.harness.rounds import in_turns, medians
from benchmarks.harness.tables import markdown
from benchmarks.loader import images

BAR = 1.1  # times evaluate's CPU time
SIDES = {
    "evaluate": "evaluate, a .rec",
    "rec": "predict, the same .rec",
    "folder": "predict, a folder of its files",
    "alone": "predict, a file at a time",
}


def main() -> int:
    parser = parsing.parser("predicting", __doc__, rounds=5, has_json=True)
    parser.add_argument("--nets", default="mobilenet0.25,resnet18_v1b")
    parser.add_argument("--images", type=int, default=96)
    parsing.add_folder(parser, "--folder", images.FOLDER, "where the pictures are kept")
    options = parser.parse_args()
    rec = images.make(options.folder, options.images)["restart"]
    found = {name: measure(name, rec, options.rounds) for name in options.nets.split(",")}
    print(json.dumps({"bar": BAR, **found}) if options.json else table(found))
    return 0 if all(each["rec"]["cpu"] <= BAR * each["evaluate"]["cpu"] for each in found.values()) else 1


def measure(name: str, rec: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Return the wall and CPU seconds of an image by each side, medians of some rounds after a first one."""
    from mxtrain.inference import predictor as predictors

    with tempfile.TemporaryDirectory() as folder:
        flags = ("--train", rec, "--num-classes", images.NUM_CLASSES, "--model", name, "--batch-size", 32)
        run = commands.fit(Path(folder), *flags, "--max-steps", 1)
        opened = predictors.open_run(run, "latest", "cpu", {}, with_losses=False)
        with predictors.open_predictor(opened, "cpu") as predictor:
            sides = _sides(opened, predictor, rec)
            turns = {side: lambda call=call: _timed(call) for side, call in sides.items()}
            times = in_turns(turns, rounds, warm_up=1, to_and_fro=True)
    return {side: dict(zip(("wall", "cpu"), medians(each))) for side, each in times.items()}


def _timed(call: Callable[[], int]) -> tuple[float, float]:
    """Return the wall and CPU seconds of an image, of a call that returns their number."""
    began, cpu_began = time.perf_counter(), time.process_time()
    count = call()
    return (time.perf_counter() - began) / count, (time.process_time() - cpu_began) / count


def _sides(opened: Any, predictor: Any, rec: Path) -> dict[str, Callable[[], int]]:
    """Return for each side the function that does its work and returns the number of images."""
    from mxtrain.data.records.record_sets import open_set
    from mxtrain.inference import row_formats
    from mxtrain.inference.input_samples import Inputs
    from mxtrain.inference.predictor import PredictOptions
    from mxtrain.train import evaluation

    task, net, context = predictor
    row = row_formats.row_of("jsonl", row_formats.RowFormat("image", task.in_words))

    def predicted(*given: Path) -> int:
        answers = predictor.predict(Inputs(task, given), PredictOptions(top=3))
        return sum(len(row(each.name, shown)) > 0 for each, shown in answers)

    def evaluated() -> int:
        found = evaluation.evaluate(task, task.plain_forward(), net, open_set(str(rec)), [context])
        assert found is not None
        return int(found.scores["num_samples"])

    files = sorted(images.folder_of(rec).rglob("*.jpg"))[:32]
    return {
        "evaluate": evaluated,
        "rec": lambda: predicted(rec),
        "folder": lambda: predicted(images.folder_of(rec)),
        "alone": lambda: sum(predicted(file) for file in files),
    }


def table(found: dict[str, dict[str, dict[str, float]]]) -> str:
    heads = [head for name in found for head in (name, "")]
    rows = [
        [words, *(cell for each in found.values() for cell in _cells(each[side]))]
        for side, words in SIDES.items()
    ]
    text = markdown(["images a second, and ms of CPU time an image", *heads], rows, "lr")
    ratios = ", ".join(
        f"{name} {each['rec']['cpu'] / each['evaluate']['cpu']:.2f}" for name, each in found.items()
    )
    return f"{text}\n\nCPU time of predict against evaluate: {ratios} (bar {BAR})"


def _cells(seconds: dict[str, float]) -> tuple[str, str]:
    return f"{1 / seconds['wall']:.1f}", f"{1000 * seconds['cpu']:.1f}"


if __name__ == "__main__":
    raise SystemExit(main())
