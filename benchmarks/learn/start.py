"""Writing a run's initial weights to a file for torch_side.py: `start.py WEIGHTS.npz NUM_CLASSES FLAGS`."""

from __future__ import annotations

import sys

import numpy as np

from mxtrain import config
from mxtrain.models.parameters import weights
from mxtrain.tasks.classification import Classification
from mxtrain.train.net import build_net


def main() -> None:
    path, num_classes, *flags = sys.argv[1:]
    run = config.parse(flags)
    with build_net.compiling(run.model.amp):
        net = build_net.build_to_train(
            Classification.numbered(run, int(num_classes)), build_net.devices_of(run.layout.devices)
        ).net
    np.savez(path, **weights.copy_of(net))


if __name__ == "__main__":
    main()
