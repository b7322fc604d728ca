"""Initial weights from a file: `--pretrained`, and the report of what was loaded.

Owns the matching of names. Reads what Gluon's save_parameters writes (GluonCV's files too), what net.export writes
(`arg:` and `aux:`), files with the long names of collect_params().save(), and checkpoints of ours. A convolution of
colours is summed over them for a net of grey pictures; what else does not fit is left out and reported. Finding the
file is `checkpoint/initial_weights.py`'s.
"""

from __future__ import annotations

import itertools
import logging
from pathlib import Path
from typing import Collection, Mapping, NamedTuple, Sequence, Tuple

from mxtrain.core.errors import DataError
from mxtrain.models.parameters import head_arrays, weights
from mxtrain.models.pruning import Cut
from mxtrain.runtime import mx
from mxtrain.runtime.types import Block, NDArray

logger = logging.getLogger(__name__)

Shape = Tuple[int, ...]
NAMES_IN_LINE = 6


class NameMatch(NamedTuple):
    """The parameters of a net matched with the arrays of a file."""

    loaded: dict[str, str]  # the net's name -> the file's
    missing: list[str]  # in the net alone, by its names
    unexpected: list[str]  # in the file alone, by its names
    mismatched: dict[str, tuple[Shape, Shape]]  # by the net's name, the shape in the file and in the net

    def report(self) -> list[str]:
        """Return lines that say how many parameters are loaded, and which are left out and why."""
        num_wanted = len(self.loaded) + len(self.missing) + len(self.mismatched)
        lines = [f"{len(self.loaded)} of {num_wanted} parameters taken"]
        shapes = [f"{name} ({theirs} there, {ours} here)" for name, (theirs, ours) in self.mismatched.items()]
        for why, names in (
            ("of another shape", shapes),
            ("not in the file", self.missing),
            ("not in the net", self.unexpected),
        ):
            if names:
                lines.append(f"left out, {why}: {_listed(names)}")
        return lines


def load(net: Block, path: Path, cut: Cut | None = None) -> Collection[str]:
    """Load what fits the net from the file, log a report, and return the names of the loaded parameters.

    Where the file's net is wider, `cut` takes what fits. DataError if nothing fits or an array is not finite.
    """
    arrays, named = read(path, f"--pretrained {path}"), weights.named_parameters(net)
    ours = {name: cut.shape(each.name) if cut else each.shape for name, each in named.items()}
    arrays = head_arrays.fitted(arrays, ours)
    match = match_names(
        {name: array.shape for name, array in arrays.items()},
        ours,
        {name: parameter.name for name, parameter in named.items()},
        getattr(net, "other_names", tuple)(),
    )
    if not match.loaded:
        there, here = (
            ", ".join(f"{name} {shape}" for name, shape in list(of.items())[:3])
            for of in ({name: array.shape for name, array in arrays.items()}, ours)
        )
        raise DataError(f"--pretrained {path}: fits nothing of this net: it has {there}, the net {here}")
    if cut is not None:
        cut.choose(
            {named[name].name: arrays[theirs].asnumpy() for name, theirs in match.loaded.items()}, str(path)
        )
    for name, theirs in match.loaded.items():
        array = arrays[theirs].astype(named[name].dtype)
        if not mx.nd.contrib.isfinite(array).min().asscalar():
            raise DataError(
                f"--pretrained {path}: '{theirs}' holds numbers that are not finite; give another file"
            )
        if array.shape != ours[name]:
            array = array.sum(axis=1, keepdims=True)
            logger.info("--pretrained %s: '%s' is summed over its three colours", path, theirs)
        weights.put(
            named[name], array if cut is None else mx.nd.array(cut(named[name].name, array.asnumpy()))
        )
    for line in match.report():
        logger.info("--pretrained %s: %s", path, line)
    return match.loaded


def warn_of_untrained(patterns: str, untrained: Sequence[str], source: str) -> None:
    """Warn of parameters that `--freeze` keeps at random values, as `source`, the file if there is one, lacks them."""
    if untrained:
        none = f"--pretrained {source} has nothing that fits them" if source else "no --pretrained is given"
        logger.warning(
            "--freeze %s: %s keep their random initial values, because %s; freeze less, or give weights that have them",
            *(patterns, _listed(untrained), none),
        )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMES_IN_LINE} more" if len(names) > NAMES_IN_LINE else ""
    return ", ".join(names[:NAMES_IN_LINE]) + more


def _fits(theirs: Shape, ours: Shape) -> bool:
    """Return whether an array is a parameter's, or that of a convolution of colours where ours is of grey."""
    is_grey = len(ours) == 4 and theirs == (ours[0], 3, *ours[2:]) and ours[1] == 1
    return theirs == ours or is_grey


def match_names(
    theirs: Mapping[str, Shape],
    ours: Mapping[str, Shape],
    long_names: Mapping[str, str],
    other_names: Sequence[Mapping[str, str]] = (),
) -> NameMatch:
    """Match the names of a file with a net's, given the shapes `theirs` and `ours` by name.

    They are matched by place in the net (`features.0.weight`), or by the long names that `long_names` maps to; each
    with and without the prefix that all names on its side share (`resnetv1b0_`, `net.`). A net may have `other_names`
    besides, a detector those of its backbone, each a way from a file's names to its own. The way that matches most is
    taken.
    """
    pairings = [
        {known[short]: there[short] for short in there if short in known}
        for there in _with_and_without_prefix({name: name for name in theirs})
        for ours_by_name in (
            {name: name for name in ours},
            {long: name for name, long in long_names.items()},
            *map(dict, other_names),
        )
        for known in _with_and_without_prefix(ours_by_name)
    ]
    best = max(pairings, key=len)
    fitting = {name: place for name, place in best.items() if _fits(theirs[place], ours[name])}
    mismatched = {name: (theirs[place], ours[name]) for name, place in best.items() if name not in fitting}
    missing = [name for name in ours if name not in best]
    return NameMatch(fitting, missing, sorted(set(theirs) - set(best.values())), mismatched)


def _with_and_without_prefix(by_name: dict[str, str]) -> list[dict[str, str]]:
    """Return the dict twice: as it is, and with keys without the whole words that all of them start with."""
    ends = zip(min(by_name, default=""), max(by_name, default=""))  # what these share, all share
    shared = "".join(one for one, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], ends))
    length = max(shared.rfind("."), shared.rfind("_")) + 1
    return [by_name, {name[length:]: value for name, value in by_name.items()}]


def read(path: Path, called: str) -> dict[str, NDArray]:
    """Return the file's arrays by name, without the prefixes of net.export; a refusal calls it `called`."""
    try:
        arrays = mx.nd.load(str(path))
    except mx.base.MXNetError:
        raise DataError(f"{called}: not a whole file of MXNet's arrays; copy or save it again") from None
    if not isinstance(arrays, dict):
        raise DataError(f"{called}: holds arrays without names; save it with net.save_parameters")
    return {name[4:] if name.startswith(("arg:", "aux:")) else name: array for name, array in arrays.items()}
