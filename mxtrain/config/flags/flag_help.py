"""Text of fit's --help: the flags of most runs, all of them, or those with a word in their name.

Owns which flags most runs need.
"""

from __future__ import annotations

from typing import Sequence

from mxtrain.config.flags import fit_parser
from mxtrain.config.flags.fit_parser import Flag
from mxtrain.core.errors import UsageError, nearest

FLAGS = ("-h", "--help")
ALL = "all"
# By their names in `config/sections/`.
OF_MOST_RUNS = frozenset(
    (
        *("train", "val", "image_size", "augment", "task", "model", "pretrained", "loss", "amp"),
        *("kvstore", "devices", "num_workers", "batch_size", "optimizer", "lr", "schedule"),
        *("warmup_epochs", "weight_decay", "epochs", "early_stop", "out", "resume", "dry_run", "config"),
    )
)


def text(arguments: Sequence[str], program: str) -> str | None:
    """Return the help for a command line with -h or --help in it, and perhaps a word behind that; None without."""
    for place, (flag, _, word) in enumerate(each.partition("=") for each in arguments):
        if flag in FLAGS:
            following = [word] if word else arguments[place + 1 : place + 2]
            return _text(next((each for each in following if not each.startswith("-")), ""), program)
    return None


def _text(word: str, program: str) -> str:
    every = [_with_default(flag) for flag in fit_parser.flags()]
    if word == ALL:
        return fit_parser.shown(program, every).format_help()
    rest = f"{program} --help all lists all {len(every)} flags, --help WORD those with a word in their name, as lr."
    about = [flag for flag in every if word.replace("-", "_") in flag.name]
    if not about:
        known = [flag.word for flag in every]
        raise UsageError(
            f"--help {word}: no flag is called so{nearest(word, known)}; give --help, or --help all"
        )
    if not word:
        about = [_brief(flag) for flag in every if flag.name in OF_MOST_RUNS]
    return fit_parser.shown(program, about, rest).format_help()


def _with_default(flag: Flag) -> Flag:
    """Return a flag whose meaning ends with its default, where that says something."""
    default = "" if flag.default in (None, "", False) else f" (default: {flag.default})"
    return flag._replace(meaning=f"{flag.meaning}{default}")


def _brief(flag: Flag) -> Flag:
    """Return a flag without what comes behind the first semicolon."""
    return flag._replace(meaning=flag.meaning.partition("; ")[0])
