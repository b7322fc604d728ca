"""A mirror of a run folder in an object store: `--mirror s3://bucket/runs/photos`.

After each checkpoint, beside the training, its files go there, the manifest last, and so do the files of the run folder
itself. A run whose folder has no checkpoint, as on another machine, begins by fetching the newest one of its mirror. A
store that is away holds up no training: the next checkpoint goes there with what is missing.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from pathlib import Path

from mxtrain.checkpoint import directory
from mxtrain.checkpoint.directory import MANIFEST
from mxtrain.config.values import addresses
from mxtrain.config.values.addresses import Address
from mxtrain.core.errors import Stop
from mxtrain.data.storage import stores

logger = logging.getLogger(__name__)

PATIENCE = 60.0  # seconds for which a file is tried; the next checkpoint tries again
CHECKPOINTS = "checkpoints"


class RunMirror:
    """The mirror of the run folder `out`."""

    def __init__(self, out: Path, text: str):
        self._out, self._address = out, addresses.parse("--mirror", text)
        self._pushed: set[str] = set()  # the checkpoints that came from here

    def push(self) -> None:
        """Have the store hold what the run folder does; a warning where the store is away."""
        try:
            known = {str(each.relative_to(self._address)) for each in stores.under(self._address, PATIENCE)}
            here = {path.name: path for path in sorted((self._out / CHECKPOINTS).glob("step-*"))}
            for name, path in here.items():
                if (path / MANIFEST).is_file() and f"{CHECKPOINTS}/{name}/{MANIFEST}" not in known:
                    self._push_checkpoint(path)
            self._push_files(self._out)
            for name in self._pushed - set(here):
                self._remove(name, known)
        except (Stop, OSError) as error:
            logger.warning(
                "--mirror %s: is behind (%s); the next checkpoint goes there too", self._address, error
            )

    def _push_checkpoint(self, folder: Path) -> None:
        files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
        for path in (*files, folder / MANIFEST):
            stores.write(self._address / str(path.relative_to(self._out)), str(path), PATIENCE)
        self._pushed.add(folder.name)

    def _push_files(self, folder: Path) -> None:
        for path in sorted(folder.iterdir()):
            is_ours = not path.name.startswith(".") and not path.name.endswith(".writing")
            if path.is_file() and is_ours:
                stores.write(self._address / path.name, str(path), PATIENCE)

    def _remove(self, name: str, known: set[str]) -> None:
        """Remove a checkpoint that the run folder keeps no more, its manifest first: the rest is no checkpoint then."""
        start = f"{CHECKPOINTS}/{name}/"
        files = sorted(
            (each for each in known if each.startswith(start)), key=lambda each: each != start + MANIFEST
        )
        for each in files:
            stores.remove(self._address / each, PATIENCE)
        self._pushed.discard(name)

    def pull(self, patience: float) -> None:
        """Fetch the newest checkpoint, and the files beside, unless the run folder has a checkpoint."""
        folder = self._out / CHECKPOINTS
        if directory.newest(folder) is not None:
            return
        files = stores.under(self._address, patience)
        whole = [
            each.parent for each in files if each.name == MANIFEST and each.parent.parent.name == CHECKPOINTS
        ]
        if not whole:
            return
        newest = max(whole, key=lambda each: each.name)
        logger.info("fetching %s from --mirror %s", newest.name, self._address)
        folder.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(dir=self._out, prefix=".mirrored-"))
        try:
            for each in files:
                if newest in each.parents:
                    self._copy(each, aside / str(each.relative_to(newest)), patience)
                elif each.parent == self._address and not (self._out / each.name).exists():
                    self._copy(each, aside / ".file", patience)
                    os.replace(aside / ".file", self._out / each.name)
            if not (folder / newest.name).exists():  # another process of this host may have been faster
                os.rename(aside, folder / newest.name)
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    def _copy(self, address: Address, path: Path, patience: float) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        stores.copy(address, str(path), patience)


def of_run(out: str, mirror: str) -> RunMirror | None:
    """Return the mirror that flags name, or None."""
    return RunMirror(Path(out), mirror) if mirror else None
