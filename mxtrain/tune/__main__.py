"""`python -m mxtrain.tune`: the best values of flags, searched by training with many; as a function, `tune`."""

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    from mxtrain.core import interrupts

    interrupts.exit_on_signal("mxtrain.tune")

import argparse
import importlib.util
import math
import sys
from pathlib import Path
from typing import Sequence

from mxtrain.config.flags.arguments import LARGEST_SEED, Parser
from mxtrain.core import command_name
from mxtrain.core.errors import Diverged, Stopped, UsageError, one_line

PROGRAM = "mxtrain.tune"
SAMPLERS = ("tpe", "grid", "random")
PRUNERS = ("median", "hyperband", "none")
NUM_TRIALS = 20


def main(argv: Sequence[str] | None = None) -> int:
    return one_line(PROGRAM, lambda: command(sys.argv[1:] if argv is None else argv))


def command(words: Sequence[str]) -> None:
    """Search as the arguments say, or go on with the search that is in --out."""
    own, of_fit = split(words)
    options = parser().parse_args(own)
    check_installed()

    from mxtrain import config
    from mxtrain.launch import attempt
    from mxtrain.tune import run_search
    from mxtrain.tune import space as spaces

    flags = ["--config", options.config, *of_fit, "--out", str(options.out)]
    base = run_search.base_of(config.parse(flags, command_name.typed("python -m mxtrain.tune")))
    search_options = run_search.SearchOptions(
        **{name: getattr(options, name) for name in run_search.SearchOptions._fields},
    )
    with attempt.stop_requests() as requests:
        outcome = run_search.run_search(base, spaces.read(options.space, base), search_options, requests)
    print(outcome.text, flush=True)
    again = "the same command goes on"
    if requests.exit_code is not None:
        raise Stopped(
            f"stopped after {outcome.num_ended} of {outcome.num_trials} trials; {again}", requests.exit_code
        )
    if outcome.without_page:
        raise outcome.without_page
    if outcome.num_ended < outcome.num_trials:
        print(
            f"{PROGRAM}: stopped by --timeout after {outcome.num_ended} of {outcome.num_trials} trials; {again}"
        )
    elif outcome.best is None:
        raise Diverged(f"none of {outcome.num_ended} trials has a value; {options.out}/trials.csv says why")


def check_installed() -> None:
    """Refuse a search where what it needs is not installed."""
    for package in ("optuna", "plotly"):
        if importlib.util.find_spec(package) is None:
            raise UsageError(f"a search needs {package}: pip install 'mxtrain[tuning]'")


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the flags of a search, and after a -- those of fit that win over --config."""
    place = list(words).index("--") if "--" in words else len(words)
    return list(words[:place]), list(words[place + 1 :])


def parser() -> Parser:
    """Return the parser of this command's flags."""
    flags = Parser(
        prog=command_name.typed("python -m mxtrain.tune"),
        description="Search the best values of flags of mxtrain.fit by training with many; the same command goes on "
        "after a kill. Flags of fit after a -- win over --config.",
        allow_abbrev=False,
    )
    flags.add_argument(
        "--config", required=True, metavar="FILE", help="what all trials have in common, as for fit"
    )
    flags.add_argument(
        "--space",
        required=True,
        type=Path,
        metavar="FILE",
        help="the values to try: a YAML file of flags, each with a list or with low and high",
    )
    flags.add_argument("--out", required=True, type=Path, help="the folder of the search")
    flags.add_argument(
        "--trials",
        type=_count,
        help=f"how many to run; left out: {NUM_TRIALS}, with --sampler grid all its points",
    )
    flags.add_argument(
        "--sampler",
        choices=SAMPLERS,
        default="tpe",
        help="tpe (near what was good) | grid (each point once) | random; default tpe",
    )
    flags.add_argument(
        "--pruner",
        choices=PRUNERS,
        default="median",
        help="which trials end early: median (worse than half of the others then) | hyperband | none; default median",
    )
    flags.add_argument(
        "--jobs", type=_count, default=1, help="trials at once, which divide the cores; default 1"
    )
    flags.add_argument(
        "--timeout",
        type=_seconds,
        default=math.inf,
        metavar="SECONDS",
        help="stop after so long, with checkpoints; the same command goes on",
    )
    flags.add_argument("--seed", type=_seed, default=0, help="of what is drawn; the runs' own is --config's")
    flags.add_argument("--quiet", action="store_true", help="nothing but errors on stderr")
    return flags


def _count(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"'{text}': give a whole number from 1 on")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) > LARGEST_SEED:
        raise argparse.ArgumentTypeError(f"'{text}': give a whole number from 0 to {LARGEST_SEED}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"'{text}': give seconds above 0")
    return seconds


if __name__ == "__main__":
    raise SystemExit(main())
