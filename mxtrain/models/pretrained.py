"""Weights from a file as a starting point: `--pretrained`, and the report of what was taken.

Reads what Gluon's save_parameters writes (GluonCV's files too), what net.export writes (`arg:` and `aux:`), files with
the long names of collect_params().save(), and checkpoints of ours. Whatever does not fit is left out and named.
"""

from __future__ import annotations

import itertools
import logging
from pathlib import Path
from typing import Any, Collection, Mapping, NamedTuple, Sequence, Tuple

from mxtrain.core.errors import DataError
from mxtrain.models import weights
from mxtrain.runtime import mx

logger = logging.getLogger(__name__)

Shape = Tuple[int, ...]
NAMES_IN_LINE = 6


class Match(NamedTuple):
    """How a file and a net fit each other, by the net's names where it has them."""

    taken: dict[str, str]  # the net's name -> the file's
    missing: list[str]  # in the net alone
    extra: list[str]  # in the file alone
    misshapen: dict[str, tuple[Shape, Shape]]  # in the file, in the net

    def lines(self) -> list[str]:
        """What a person wants to know: how much came, and what did not come why."""
        num_wanted = len(self.taken) + len(self.missing) + len(self.misshapen)
        told = [f"{len(self.taken)} of {num_wanted} parameters taken"]
        shapes = [f"{name} ({theirs} there, {ours} here)" for name, (theirs, ours) in self.misshapen.items()]
        for why, names in (
            ("of another shape", shapes),
            ("not in the file", self.missing),
            ("not in the net", self.extra),
        ):
            if names:
                told.append(f"left out, {why}: {_listed(names)}")
        return told


def load(net: Any, path: Path) -> Collection[str]:
    """Give the net what the file has for it, say so, and name what has been taken."""
    arrays, named = _read(path), weights.named_parameters(net)
    found = match(
        {name: array.shape for name, array in arrays.items()},
        {name: parameter.shape for name, parameter in named.items()},
        {name: parameter.name for name, parameter in named.items()},
    )
    if not found.taken:
        theirs, ours = (
            ", ".join(f"{name} {each.shape}" for name, each in list(of.items())[:3]) for of in (arrays, named)
        )
        raise DataError(f"--pretrained {path}: fits nothing of this net: it has {theirs}, the net {ours}")
    for name, theirs in found.taken.items():
        array = arrays[theirs].astype(named[name].dtype)
        if not mx.nd.contrib.isfinite(array).min().asscalar():
            raise DataError(
                f"--pretrained {path}: '{theirs}' holds numbers that are not finite; give another file"
            )
        named[name].set_data(array)
    for line in found.lines():
        logger.info("--pretrained %s: %s", path, line)
    return found.taken


def warn_of_untrained(patterns: str, untrained: Sequence[str], source: str) -> None:
    """Tell of what `--freeze` holds where it began, as no weights came for it from the source, if there is one."""
    if untrained:
        none = f"--pretrained {source} has nothing that fits them" if source else "no --pretrained is given"
        logger.warning(
            "--freeze %s: %s stay untrained, as they begin, for %s; freeze less, or give weights that have them",
            *(patterns, _listed(untrained), none),
        )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMES_IN_LINE} more" if len(names) > NAMES_IN_LINE else ""
    return ", ".join(names[:NAMES_IN_LINE]) + more


def match(theirs: Mapping[str, Shape], ours: Mapping[str, Shape], long_names: Mapping[str, str]) -> Match:
    """Pair names: by place in the net (`features.0.weight`), or else by the long ones that `long_names` maps to.

    Each also without the prefix that all names on its side share (`resnetv1b0_`, `net.`). The way that pairs most wins.
    """
    pairings = [
        {known[short]: there[short] for short in there if short in known}
        for there in _with_and_without_prefix({name: name for name in theirs})
        for ours_by_name in ({name: name for name in ours}, {long: name for name, long in long_names.items()})
        for known in _with_and_without_prefix(ours_by_name)
    ]
    best = max(pairings, key=len)
    fitting = {name: place for name, place in best.items() if theirs[place] == ours[name]}
    misshapen = {name: (theirs[place], ours[name]) for name, place in best.items() if name not in fitting}
    missing = [name for name in ours if name not in best]
    return Match(fitting, missing, sorted(set(theirs) - set(best.values())), misshapen)


def _with_and_without_prefix(by_name: dict[str, str]) -> list[dict[str, str]]:
    """As it is, and with the whole words that all names begin with taken off."""
    ends = zip(min(by_name, default=""), max(by_name, default=""))  # what these share, all share
    shared = "".join(one for one, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], ends))
    length = max(shared.rfind("."), shared.rfind("_")) + 1
    return [by_name, {name[length:]: value for name, value in by_name.items()}]


def _read(path: Path) -> dict[str, Any]:
    """The file's arrays, without the marks of net.export."""
    try:
        arrays = mx.nd.load(str(path))
    except mx.base.MXNetError:
        raise DataError(
            f"--pretrained {path}: not a whole file of MXNet's arrays; copy or save it again"
        ) from None
    if not isinstance(arrays, dict):
        raise DataError(f"--pretrained {path}: holds arrays without names; save it with net.save_parameters")
    return {name[4:] if name.startswith(("arg:", "aux:")) else name: array for name, array in arrays.items()}
