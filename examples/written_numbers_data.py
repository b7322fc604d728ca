"""Write rows of scikit-learn's handwritten digits: `python -m examples.written_numbers_data data/`.

The same bytes each time. A record's payload is the number of digits, the digits, and 8 bytes for each column of pixels,
from left to right. No scan of val.rec is in train.rec.
"""

import sys
from pathlib import Path

import numpy as np

from mxtrain.data.records.record_writer import RecordWriter


def write(folder, num_train=2000, num_val=300):
    """Write train.rec and val.rec."""
    from sklearn.datasets import load_digits

    digits, rng = load_digits(), np.random.default_rng(0)
    folder.mkdir(parents=True, exist_ok=True)
    for name, count, scans in (("train", num_train, range(1400)), ("val", num_val, range(1400, 1797))):
        with RecordWriter(folder / f"{name}.rec") as writer:
            for key in range(count):
                writer.write(key, 0, row_of(digits, rng.choice(scans, rng.integers(1, 7)), rng))


def row_of(digits, scans, rng):
    """Return the payload of these scans beside each other, with gaps of up to three columns."""
    parts = [np.pad(digits.images[scan], ((0, 0), (0, rng.integers(0, 4)))) for scan in scans]
    columns = np.concatenate(parts, axis=1).T
    return bytes([len(scans), *digits.target[scans], *columns.astype(np.uint8).ravel()])


if __name__ == "__main__":
    write(Path(sys.argv[1]))
