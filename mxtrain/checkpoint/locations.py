"""Locations of a run's files and modules that hold from any working folder.

Owns what a run folder keeps of them: absolute paths in its configs, and for each `module:callable` the folder that its
module was imported from, so that `evaluate`, `predict` and `--teacher` find it again. Of a checkpoint's claims only
such a folder is put on the Python path, and only if it contains the module, which the run asked for by name.
"""

from __future__ import annotations

import dataclasses
import importlib.machinery
import importlib.util
import logging
import os
import stat
import sys
import sysconfig
from pathlib import Path

from mxtrain.checkpoint.directory import Checkpoint
from mxtrain.config import Run
from mxtrain.config.components import import_path
from mxtrain.config.values import addresses
from mxtrain.core.errors import UsageError

logger = logging.getLogger(__name__)

MEAN_SOMETHING = set(",:*?[]")  # in the name of a file of --train and --val


def absolute(run: Run) -> Run:
    """Return the run with absolute paths, for readers in another folder."""
    data, model, output = run.data, run.model, run.output
    resume = output.resume if output.resume in ("auto", "never") else _absolute(output.resume)
    train, val, cache_dir = (
        absolute_sources(data.train),
        absolute_sources(data.val),
        _absolute(data.cache_dir),
    )
    return dataclasses.replace(
        run,
        data=dataclasses.replace(
            data, train=train, val=val, cache_dir=cache_dir, storage_cache=_absolute(data.storage_cache)
        ),
        model=dataclasses.replace(
            model,
            pretrained=_absolute(model.pretrained),
            teacher=_absolute(model.teacher),
            amp_table=_absolute(model.amp_table),
        ),
        output=dataclasses.replace(output, out=_absolute(output.out), resume=resume),
    )


def absolute_sources(files: str | None) -> str | None:
    """Return --train or --val with absolute paths.

    Unchanged where the name of the working folder would be read as a list or a pattern.
    """
    if not files or import_path.is_import_path(files) or MEAN_SOMETHING & set(os.getcwd()):
        return files
    return ",".join(_absolute(part.strip()) for part in files.split(","))


def _absolute(path: str) -> str:
    return os.path.abspath(path) if path and not addresses.is_address(path) else path


def modules(run: Run) -> dict[str, str]:
    """Return the folder of each module that the run's own code and data come from, without installed ones."""
    data, metrics = (run.data.train, run.data.val), run.output.metric.split(",")
    import_paths = (run.model.task, run.model.model, run.model.loss, *data, *metrics)
    tops = {_top(text) for text in import_paths if text and ":" in text}
    found = {top: _folder(_spec(top)) for top in sorted(tops)}
    return {top: folder for top, folder in found.items() if folder and not _is_installed(top, folder)}


def make_importable(checkpoint: Checkpoint, *import_paths: str, last: bool = False) -> None:
    """Make each of these `module:callable` of the checkpoint's run importable from the folder that it was in then.

    The folder comes first on the Python path, or `last` where the modules of the present run take precedence.
    """
    path, state = checkpoint[:2]
    folders = state.get("modules")
    for text in import_paths:
        refuse_of_python(path, text)
        top = _top(text)
        folder = folders.get(top) if isinstance(folders, dict) else None
        if ":" in text and isinstance(folder, str) and _folder(_spec(top)) != folder:
            _find_again(path, text, folder, last)


def refuse_of_python(path: Path, text: str) -> None:
    """Refuse a `module:callable` of a checkpoint that is Python's own, as `os:abort`, with a UsageError.

    No net, loss, metric or data comes from there; such a name can only be meant to do something else.
    """
    if import_path.is_import_path(text) and _is_of_python(_top(text)):
        raise UsageError(
            f"{path}: names {text}, which is a part of Python and none of a run; do not use this folder, or give what "
            "is right in its place"
        )


def _is_of_python(top: str) -> bool:
    """Return whether a module is one of the standard library's."""
    spec, paths = _spec(top), sysconfig.get_paths()
    library = [paths["stdlib"], paths["platstdlib"]]
    folders = [*library, *(os.path.join(folder, "lib-dynload") for folder in library)]
    return spec is not None and (spec.origin in ("built-in", "frozen") or _folder(spec) in folders)


def _find_again(path: Path, text: str, folder: str, last: bool) -> None:
    here = _spec(_top(text)) is not None
    if here and last:
        return
    refusal = _refusal(path, _top(text), folder)
    if not refusal:
        sys.path.insert(len(sys.path) if last else 0, folder)
    elif here:
        logger.warning("%s: not taken from %s, where its run had the module, but from here", text, folder)
    else:
        raise UsageError(
            f"{path}: its run takes {text} from a module in {folder}, which {refusal}; put the module on the Python "
            "path, as in PYTHONPATH=FOLDER"
        )


def _refusal(checkpoint: Path, top: str, folder: str) -> str:
    """Return the reason not to import a module from this folder, else ''; a checkpoint may come from somebody else."""
    if importlib.machinery.PathFinder.find_spec(top, [folder]) is None:
        return "has it no more"
    if _is_inside(folder, checkpoint):
        return "is the run's own, from which no code is taken"
    status = os.stat(folder)
    if status.st_uid not in (0, os.getuid()) or status.st_mode & stat.S_IWOTH:
        return "others can write to, so that no code is taken from there"
    return ""


def _top(text: str) -> str:
    return text.partition(":")[0].partition(".")[0]


def _spec(top: str) -> importlib.machinery.ModuleSpec | None:
    import_path.search_working_folder()
    try:
        return importlib.util.find_spec(top) if top.isidentifier() else None
    except (ImportError, ValueError):
        return None


def _folder(spec: importlib.machinery.ModuleSpec | None) -> str:
    """Return the folder to put on the Python path for this module; an empty string where it is in no folder."""
    if spec is None:
        return ""
    packages = list(spec.submodule_search_locations or ())
    place = packages[0] if packages else spec.origin if spec.has_location else None
    return os.path.dirname(os.path.abspath(place)) if place else ""


def _is_installed(top: str, folder: str) -> bool:
    parts = {"site-packages", "dist-packages"} & set(Path(folder).parts)
    return bool(parts) or top == "mxtrain" or folder == sysconfig.get_paths()["stdlib"]


def _is_inside(folder: str, checkpoint: Path) -> bool:
    """Return whether the folder may have come with the checkpoint: a copied run must not bring code along."""
    own = checkpoint.resolve()
    own = own.parent.parent if own.parent.name == "checkpoints" else own
    return own in (Path(folder).resolve(), *Path(folder).resolve().parents)
