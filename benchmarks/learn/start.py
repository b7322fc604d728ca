"""The weights that a run starts from, in a file that torch_side.py reads: `start.py WEIGHTS.npz NUM_CLASSES FLAGS`."""

from __future__ import annotations

import sys

import numpy as np

from mxtrain import config
from mxtrain.train import nets, weights


def main() -> None:
    path, num_classes, *flags = sys.argv[1:]
    run = config.parse(flags)
    net = nets.to_train(run, int(num_classes), nets.contexts(run.layout.devices))
    np.savez(path, **weights.of_net(net))


if __name__ == "__main__":
    main()
