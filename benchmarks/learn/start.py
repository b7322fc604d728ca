"""Writing the weights that a run began with to a file: `start.py RUN_FOLDER WEIGHTS.npz`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from mxtrain import config
from mxtrain.checkpoint import directory
from mxtrain.checkpoint.input_identity import description_of
from mxtrain.models.parameters import weights
from mxtrain.tasks import registry as tasks
from mxtrain.train.net import build_net


def main() -> None:
    folder, path = map(Path, sys.argv[1:])
    found = directory.newest(folder / "checkpoints")
    assert found is not None
    run = config.from_flat(found[1]["config"])
    task = tasks.of_description(run, description_of(found[1]))
    with build_net.compiling(run.model.amp):
        net = build_net.build_to_train(task, build_net.devices_of(run.layout.devices)).net
    np.savez(path, **weights.copy_of(net))


if __name__ == "__main__":
    main()
