"""Images a second of predict, of a .rec and of a folder, against evaluate on the same .rec, and against one at a time.

    python -m benchmarks.predicting [--nets mobilenet0.25,resnet18_v1b] [--images 96] [--rounds 5] [--json]

Pictures are those of `benchmarks.loader`, 500 x 375 JPEGs. A net is trained for one step; then it is loaded once, and
all sides take turns in one process, with the loop of their command: reading, decoding, the net, answers as JSON lines.
Shown are medians, and the CPU time of an image, which others on the machine do not move as much: the bar is on that.
Exits with 1 where predict takes more of it than evaluate by more than the bar.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, Callable

from benchmarks.harness import commands, parsing
from benchmarks.loader import images

BAR = 1.1  # times evaluate's CPU time
SIDES = {
    "evaluate": "evaluate, a .rec",
    "rec": "predict, the same .rec",
    "folder": "predict, a folder of its files",
    "alone": "predict, a file at a time",
}


def main() -> int:
    parser = parsing.parser("predicting", __doc__)
    parser.add_argument("--nets", default="mobilenet0.25,resnet18_v1b")
    parser.add_argument("--images", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=images.FOLDER, help="where the pictures are kept")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rec = images.make(options.folder, options.images)["restart"]
    found = {name: measure(name, rec, options.rounds) for name in options.nets.split(",")}
    print(json.dumps({"bar": BAR, **found}) if options.json else table(found))
    return 0 if all(each["rec"]["cpu"] <= BAR * each["evaluate"]["cpu"] for each in found.values()) else 1


def measure(name: str, rec: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Return the wall and CPU seconds of an image by each side, medians of some rounds after a first one."""
    from mxtrain.inference import predictor as predictors

    with tempfile.TemporaryDirectory() as folder:
        flags = (
            "--train",
            rec,
            "--model",
            name,
            "--batch-size",
            32,
            "--max-steps",
            1,
            "--num-classes",
            images.NUM_CLASSES,
        )
        run = commands.fit(Path(folder), *flags)
        opened = predictors.open_run(run, "latest", "cpu", {}, with_losses=False)
        with predictors.open_predictor(opened, "cpu") as predictor:
            sides = _sides(opened, predictor, rec)
            times: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
            for number in range(-1, rounds):
                for side in list(sides)[:: 1 if number % 2 else -1]:
                    began, cpu_began = time.perf_counter(), time.process_time()
                    count = sides[side]()
                    if number >= 0:
                        wall, cpu = time.perf_counter() - began, time.process_time() - cpu_began
                        times[side].append((wall / count, cpu / count))
    return {
        side: dict(zip(("wall", "cpu"), map(statistics.median, zip(*each)))) for side, each in times.items()
    }


def _sides(opened: Any, predictor: Any, rec: Path) -> dict[str, Callable[[], int]]:
    """Return for each side the function that does its work and returns the number of images."""
    from mxtrain.data.records.record_sets import open_set
    from mxtrain.inference import row_formats
    from mxtrain.inference.input_samples import Inputs
    from mxtrain.train import evaluation

    task, net, context = predictor
    row = row_formats.row_of("jsonl", row_formats.RowFormat("image", task.in_words))

    def predicted(*given: Path) -> int:
        answers = predictor.predict(Inputs(task, given), 3, 0.5, embed=False)
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
    lines = [
        f"| images a second, and ms of CPU time an image | {' | | '.join(found)} | |",
        f"|---|{'---:|---:|' * len(found)}",
    ]
    for side, words in SIDES.items():
        cells = [f"{1 / each[side]['wall']:.1f} | {1000 * each[side]['cpu']:.1f}" for each in found.values()]
        lines.append(f"| {words} | {' | '.join(cells)} |")
    ratios = ", ".join(
        f"{name} {each['rec']['cpu'] / each['evaluate']['cpu']:.2f}" for name, each in found.items()
    )
    return "\n".join([*lines, f"\nCPU time of predict against evaluate: {ratios} (bar {BAR})"])


if __name__ == "__main__":
    raise SystemExit(main())
