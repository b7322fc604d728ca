"""Photographs from an object store behind a link of 100 ms and 50 MB/s, beside mosaicml-streaming.

    python -m benchmarks.storage --setup        mosaicml-streaming in an environment of its own; once
    python -m benchmarks.storage                some minutes on two quiet cores

The store is moto's S3 server, in a process of its own, and the link a proxy before it, in another. A turn is a process
with an empty cache. In a round each side has its turns: `bare` reads the ranges of an epoch and throws them away, which
is what the link gives; the loaders take an epoch, and go on in the middle of one, elsewhere in each round, as far as
the first batch, which counts from the start of their process. Ours decodes, crops and normalises; that of
mosaicml-streaming, with its defaults, hands out bytes of JPEGs. Of the rounds the medians are shown. Exit code 1 unless
the bars were measured and are met.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Iterator, NamedTuple

from benchmarks.harness import environments, parsing, processes, tables
from benchmarks.harness.processes import ROOT
from benchmarks.harness.rounds import in_turns, medians
from benchmarks.harness.tables import Bar
from benchmarks.storage.s3_server import environment, s3_server

ENVIRONMENT = "streaming"
DELAY, MEGABYTES_PER_SECOND = 0.1, 50
NUM_SAMPLES = 13000
OURS, THEIRS, BARE = "mxtrain", "mosaicml-streaming", "bare"
SHARE_BAR, RESUME_BAR = 0.95, 3.0
DEADLINE_SECONDS = 300


class Turn(NamedTuple):
    """An epoch of a loader, and its first batch in the middle of one."""

    per_second: float  # samples
    megabytes_per_second: float
    requests: float
    resumed: float  # seconds


def main() -> int:
    options = _options()
    if options.setup:
        environments.set_up(options.envs, [ENVIRONMENT])
        return 0
    with _store(options) as store:
        places = {name: iter(_places(options)) for name in options.only}
        sides = {name: lambda name=name: _turn(name, store, next(places[name])) for name in options.only}
        found = in_turns(sides, options.rounds, to_and_fro=True)
    rows = {name: Turn(*medians(turns)) for name, turns in found.items()}
    bars, is_met = tables.render_bars(_bars(rows))
    said = f"{options.rounds} rounds of {options.samples} photographs, {len(os.sched_getaffinity(0))} cores"
    tables.write(options.write, "storage", f"{said}:\n\n{_table(rows)}\n\n{bars}")
    return int(not is_met)


def _options() -> argparse.Namespace:
    parser = parsing.parser("storage", __doc__, rounds=3)
    sides = [BARE, OURS, THEIRS]
    parser.add_argument("--samples", type=int, default=NUM_SAMPLES, help="of an epoch (%(default)s)")
    parser.add_argument("--only", nargs="+", choices=sides, default=sides, help="these sides")
    parsing.add_page(parser, ROOT / "docs" / "storage.md")
    parsing.add_folder(parser, "--folder", parsing.FOLDER / "storage", "where the photographs are kept")
    parsing.add_environments(parser)
    options: argparse.Namespace = parser.parse_args()
    return options


def _places(options: argparse.Namespace) -> list[int]:
    """Return the sample at which a resumed epoch goes on, in each round."""
    return [options.samples * number // (options.rounds + 1) for number in range(1, options.rounds + 1)]


class _Store(NamedTuple):
    """A store with the data of all sides, behind its link."""

    options: argparse.Namespace
    link: subprocess.Popen[str]
    port: int  # of the link
    files: dict[str, int]  # the size of each of our files, by its path


@contextlib.contextmanager
def _store(options: argparse.Namespace) -> Iterator[_Store]:
    python = environments.interpreter(options.envs, ENVIRONMENT)
    with s3_server() as server, tempfile.TemporaryDirectory() as work:
        files = _fill(options, server, Path(work), python)
        line = [sys.executable, "-m", "benchmarks.storage.link", str(server), "--delay", str(DELAY)]
        line += ["--megabytes-per-second", str(MEGABYTES_PER_SECOND)]
        pipe = subprocess.PIPE
        link = subprocess.Popen(line, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
        try:
            assert link.stdout
            yield _Store(options, link, int(link.stdout.readline()), files)
        finally:
            link.kill()
            link.wait()


def _fill(options: argparse.Namespace, port: int, work: Path, python: Path | None) -> dict[str, int]:
    """Put the data of all sides into the store; return our files by their paths."""
    line = [sys.executable, "-m", "benchmarks.storage.photographs", options.folder, options.samples, work]
    settings = environment(port, work)
    ended = processes.run(*line, deadline_seconds=900, **settings)
    if python is not None and THEIRS in options.only:
        out = work / "mds"
        side = "benchmarks.storage.streaming_side"
        processes.run(python, "-m", side, "--pack", options.folder, options.samples, out)
        line = [sys.executable, "-m", "benchmarks.storage.photographs", "--copy", out, "s3://bucket/mds"]
        processes.run(*line, **settings)
    files: dict[str, int] = ended.answer
    return files


def _turn(name: str, store: _Store, place: int) -> Turn:
    if name == BARE:
        files = [f"{path}={size}" for path, size in store.files.items()]
        line = [sys.executable, "-m", "benchmarks.storage.bare_side", store.port, *files]
        answer = processes.run(*line, deadline_seconds=DEADLINE_SECONDS).answer
        turn = Turn(0.0, answer["bytes"] / answer["seconds"] / 1e6, 0.0, 0.0)
    else:
        before = _requests(store)
        whole = _side(name, store)
        requests = _requests(store) - before
        rest = _side(name, store, "--start", place, "--first-only")
        rates = whole["samples"] / whole["seconds"], whole["bytes"] / whole["seconds"] / 1e6
        turn = Turn(*rates, requests, rest["first"])
    print(f"{name}: {turn}", file=sys.stderr, flush=True)
    return turn


def _side(name: str, store: _Store, *flags: object) -> dict[str, float]:
    """Run a loader in a process, with an empty cache."""
    ours = name == OURS
    python = Path(sys.executable) if ours else environments.interpreter(store.options.envs, ENVIRONMENT)
    if python is None:
        raise SystemExit(f"no {THEIRS} in {store.options.envs}: python -m benchmarks.storage --setup")
    module, address = ("mxtrain_side", "train-*.rec") if ours else ("streaming_side", "mds")
    cache = Path(tempfile.mkdtemp())
    settings = environment(store.port, cache)
    settings["S3_ENDPOINT_URL"] = settings["AWS_ENDPOINT_URL"]
    line = [python, "-m", f"benchmarks.storage.{module}", f"s3://bucket/{address}"]
    try:
        line += ["--began", time.time(), "--cache", cache / "kept", *flags]
        answer: dict[str, float] = processes.run(*line, deadline_seconds=DEADLINE_SECONDS, **settings).answer
        return answer
    finally:
        shutil.rmtree(cache, ignore_errors=True)


def _requests(store: _Store) -> int:
    assert store.link.stdin and store.link.stdout
    store.link.stdin.write("\n")
    store.link.stdin.flush()
    return int(json.loads(store.link.stdout.readline())[0])


def _table(rows: dict[str, Turn]) -> str:
    head = (
        "",
        "photographs a second",
        "MB a second",
        "requests an epoch",
        "seconds to the first batch, resumed",
    )
    lines = [
        (
            name,
            *(f"{value:{form}}" if value else "" for value, form in zip(turn, (".0f", ".1f", ".0f", ".1f"))),
        )
        for name, turn in rows.items()
    ]
    return tables.markdown(head, lines, "lr")


def _bars(rows: dict[str, Turn]) -> list[Bar]:
    ours, theirs, bare = rows.get(OURS), rows.get(THEIRS), rows.get(BARE)
    bars = []
    what, bar = "of what the link gives", f"at least {SHARE_BAR:.0%}"
    if ours and bare:
        share = ours.megabytes_per_second / bare.megabytes_per_second
        bars.append(Bar(what, f"{share:.1%}", bar, share >= SHARE_BAR))
    else:
        bars.append(Bar(what, None, bar))
    found = f"{ours.resumed:.1f}" if ours else None
    is_met = bool(ours and ours.resumed <= RESUME_BAR)
    bars.append(Bar("seconds to the first batch, resumed", found, f"at most {RESUME_BAR:.0f}", is_met))
    for field, words, is_more in (
        ("per_second", "photographs a second", True),
        ("requests", "requests an epoch", False),
        ("resumed", "seconds to the first batch, resumed", False),
    ):
        what = f"{words}, beside {THEIRS}"
        side = "at least" if is_more else "at most"
        if not (ours and theirs):
            bars.append(Bar(what, None, f"{side} theirs"))
            continue
        mine, other = getattr(ours, field), getattr(theirs, field)
        is_met = mine >= other if is_more else mine <= other
        bars.append(Bar(what, f"{mine:.1f}", f"{side} {other:.1f}", is_met))
    return bars


if __name__ == "__main__":
    raise SystemExit(main())
