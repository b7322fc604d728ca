"""The comparison of a net here with torch's of the same weights: outputs of both for the same pictures.

Torch runs in a process of its own, in any environment that has it. Owns the pictures and the tolerance.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mxtrain.config import Run
from mxtrain.convert import target_net
from mxtrain.convert.torch.state_dict import FloatArray
from mxtrain.core.errors import DataError, UsageError
from mxtrain.models import contract

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block

TOLERANCE = (
    1e-4  # of the largest output: rounding alone comes near 1e-5 in deep nets, a wrong name is far above
)
NUM_PICTURES = 2
DEADLINE_SECONDS = 600
LONGEST_REASON = 300  # characters; torch names every key of a net
SCRIPT = Path(__file__).with_name("torch_outputs.py")


class Agreement(NamedTuple):
    """The largest difference between outputs, as a part of the largest output; and whether classes are the same."""

    difference: float | None
    same_classes: bool | None


NOT_COMPARED = Agreement(None, None)


def compare(
    python: str, net: Block, run: Run, file: Path, there: tuple[str, str], num_classes: int
) -> Agreement:
    """Return how far the outputs of the net here are from those of torch's net `there`, of a library by a name.

    That takes the weights in `file`, in `python`, or in this one where it has torch; without any, nothing is compared
    but that outputs are finite. UsageError where Python cannot run it, DataError where the outputs are others.
    """
    shape = contract.of_pictures(run.data.image_size, num_classes, run.data.channels).inputs[0]
    pictures = np.random.default_rng(0).normal(size=(NUM_PICTURES, *shape)).astype(np.float32)
    ours = target_net.outputs(net, pictures, file)
    python = python or (sys.executable if find_spec("torch") else "")
    if not python:
        return NOT_COMPARED
    theirs = _outputs_there(python, file, there, num_classes, pictures)
    difference = float(np.abs(theirs - ours).max() / np.abs(theirs).max())
    if not difference <= TOLERANCE:
        raise DataError(
            f"{'/'.join(there)} gives other outputs in torch than here, by {difference:.1e} of the largest: more than "
            f"{TOLERANCE:.0e}; please report it"
        )
    return Agreement(difference, bool((theirs.argmax(axis=1) == ours.argmax(axis=1)).all()))


def _outputs_there(
    python: str, file: Path, there: tuple[str, str], num_classes: int, pictures: FloatArray
) -> FloatArray:
    """Return the outputs of torch's net."""
    with tempfile.TemporaryDirectory() as folder:
        pictures_file, outputs_file = Path(folder) / "pictures.npy", Path(folder) / "outputs.npy"
        np.save(pictures_file, pictures)
        words = [SCRIPT, file, *there, num_classes, pictures.shape[1], pictures_file, outputs_file]
        line = [python, *map(str, words)]
        try:
            done = subprocess.run(line, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UsageError(f"--torch {python}: {error}; give a Python that has torch") from None
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["it says nothing"])[-1].strip()[:LONGEST_REASON]
            install = f"{python} -m pip install torch {there[0]} safetensors"
            raise UsageError(f"--torch {python}: {reason} (where one of them is missing: {install})")
        outputs: FloatArray = np.load(outputs_file)
        return outputs
