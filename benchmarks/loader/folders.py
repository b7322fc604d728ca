"""mxtrain's loader on a folder and on its packs: CPU time for an image; and how soon a large folder is described.

    python -m benchmarks.loader.folders            some six minutes on two quiet cores
    python -m benchmarks.loader.folders --quick    a few batches and files, to see that it runs

The pictures, batches and the measurement are those of `benchmarks.loader`. The bar compares the folder with the pack of
the same bytes, without restart intervals: with them, as `pack` writes by default, decoding takes less too. Files are
described, a run begins on them, and goes on in the middle of its first epoch, as the command does it. Exit code 1
unless the bar is met.
"""

from __future__ import annotations

import functools
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.harness import environments, parsing, processes, tables
from benchmarks.harness.rounds import Neighbours, in_turns, medians
from benchmarks.loader import images
from benchmarks.loader.contend import Absent, Cell, Measured, Size, measure
from mxtrain.core.opencv import cv2

MOST_RATIO = 1.1  # of the folder's CPU time to that of the pack of the same bytes
FULL, QUICK = Size(2000, 512, 1920), Size(128, 64, 128)
NUM_FILES, FEW_FILES, NUM_CLASSES = 100_000, 1000, 100
DESCRIBE = """
import json, sys, time
from mxtrain.data.fingerprint import fingerprint_of
from mxtrain.data.sources.samples import open_samples
begun = time.monotonic()
records = open_samples(sys.argv[1])
fingerprint_of(records)
print(json.dumps({"seconds": time.monotonic() - begun, "files": len(records)}))
"""
NET = (
    "--model small_cnn --image-size 24 --batch-size 64 --threads 1 --log none --checkpoint-steps 2 --epochs 1"
)
RUN = (sys.executable, "-m", "mxtrain.fit", *NET.split())


SIDES = {
    "folder": "the folder",
    "plain": "its pack of the same bytes",
    "restart": "its pack as pack writes it",
}


def main() -> int:
    parser = parsing.parser("loader.folders", __doc__, rounds=5)
    parsing.add_folder(parser, "--folder", images.FOLDER, "where the pictures are kept")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    size, num_files = (QUICK, FEW_FILES) if options.quick else (FULL, NUM_FILES)
    neighbours = Neighbours()
    packs = images.make(options.folder, size.num_pictures)
    paths = {"folder": images.folder_of(packs["plain"]), **packs}
    sides = {name: functools.partial(_measured, paths[name], size) for name in SIDES}
    found = in_turns(sides, options.rounds, to_and_fro=True)
    results = {name: Measured(*medians(rounds)) for name, rounds in found.items()}
    ratios = {
        name: each.cpu_milliseconds / results["plain"].cpu_milliseconds for name, each in results.items()
    }
    rows = [
        [title, f"{results[name][0]:.3f}", f"{results[name][1]:.0f}", f"{ratios[name]:.2f}"]
        for name, title in SIDES.items()
    ]
    head = ["one worker, float32", "CPU ms an image", "images/s", "CPU time to that of the same bytes"]
    print(f"{options.rounds} rounds of {size.measured} pictures;", end=" ")
    print(f"neighbours took {neighbours.share():.0%} of the CPU time used meanwhile\n")
    print(tables.markdown(head, rows, "lrrr"))
    is_met = ratios["folder"] <= MOST_RATIO
    verdict = "met" if is_met else "MISSED"
    print(f"\nThe folder takes {ratios['folder']:.2f} of the CPU time; the bar is {MOST_RATIO}: {verdict}")
    print(_described(options.folder, num_files))
    return 0 if is_met and not options.quick else 1


def _measured(path: Path, size: Size) -> Measured:
    outcome = measure("mxtrain", path, Cell("plain", "float32", 1), size, environments.FOLDER)
    if isinstance(outcome, Absent):
        raise SystemExit(f"{path}: {outcome.reason}")
    print(f"{path.name}: {outcome}", file=sys.stderr, flush=True)
    return outcome


def _described(beside: Path, num_files: int) -> str:
    """Return in words how long a folder of so many files takes to be described, to begin on, and to go on with."""
    with tempfile.TemporaryDirectory(dir=beside) as folder:
        source, out = Path(folder) / "files", Path(folder) / "run"
        _write_files(source, num_files)
        described = processes.run(sys.executable, "-c", DESCRIBE, source).answer
        seconds = []
        for steps in (2, 4):
            begun = time.monotonic()
            processes.run(*RUN, "--train", source, "--out", out, "--max-steps", steps)
            seconds.append(time.monotonic() - begun)
    return (
        f"{described['files']} files are described in {described['seconds']:.1f} s. Two steps take {seconds[0]:.1f} s "
        f"from the start of the command to its end, two more in the middle of the epoch {seconds[1]:.1f} s."
    )


def _write_files(source: Path, num_files: int) -> None:
    content = cv2.imencode(".jpg", images.picture(0)[:32, :32])[1].tobytes()
    for label in range(NUM_CLASSES):
        folder = source / f"{label:03}"
        folder.mkdir(parents=True)
        for number in range(num_files // NUM_CLASSES):
            (folder / f"{number:04}.jpg").write_bytes(content)


if __name__ == "__main__":
    raise SystemExit(main())
