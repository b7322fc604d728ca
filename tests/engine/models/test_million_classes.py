"""A head of a million classes, whose weights are in a file: a process holds one chunk and its gradient."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.checkout import ROOT
from tests.support.losses.margin_losses import scaled_cosines

CLASSES, ROWS, WIDTH, SAMPLES, SCALE, MARGIN = 1_000_000, 65_536, 128, 64, 64.0, 0.5
CHUNK_MIB = ROWS * WIDTH * 4 / 2**20
SLACK_MIB = 16  # blocks of logits, the features, what NumPy and OpenBLAS take at first use
Array = np.ndarray

MILLION = """
import json, sys, time
import numpy as np
from mxtrain.models.heads.chunked_head import Chunk, Samples, gradients, softmax
from mxtrain.models.heads.margins import of_loss

path, out, count, rows, width = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
lengths = [min(rows, count - first) for first in range(0, count, rows)]
rng = np.random.default_rng(1)
features, labels = rng.normal(size=(64, width)).astype(np.float32), rng.integers(0, count, 64)


def pull(chunk):
    flat = np.fromfile(path, np.float32, lengths[chunk] * width, offset=4 * chunk * rows * width)
    return Chunk(flat.reshape(-1, width))


def memory(which):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(which)) / 1024


def push(chunk, gradient):
    file.seek(4 * chunk * rows * width)
    file.write(memoryview(gradient.weights).cast("B"))


before, began = memory("VmRSS"), time.monotonic()
with open(out, "wb") as file:
    samples = [Samples(features, labels, 1 / 64)]
    (found,) = softmax(samples, lengths, pull, of_loss("arcface"))
    of_features = gradients(samples, [found], lengths, pull, push, of_loss("arcface"))
seconds, mib = time.monotonic() - began, memory("VmHWM") - before
print(json.dumps({"mib": mib, "seconds": seconds, "losses": found.losses.tolist()}))
"""


def whole(features: Array, labels: Array, weights: Array) -> tuple[Array, Array]:
    """Return the losses and the logarithms of the sums of exponentials, in float64, by blocks of classes."""
    logits = np.full(SAMPLES, -np.inf)
    for first in range(0, CLASSES, 10_000):
        cosines = scaled_cosines(features, weights[first : first + 10_000].astype(np.float64), SCALE)
        cosines[labels[:, None] == np.arange(first, first + 10_000)] = -np.inf
        logits = np.logaddexp(logits, np.logaddexp.reduce(cosines, axis=1))
    own = scaled_cosines(features, weights[labels].astype(np.float64), SCALE).diagonal()
    moved = SCALE * np.cos(np.arccos(own / SCALE) + MARGIN)
    sums = np.logaddexp(logits, moved)
    return sums - moved, sums


@pytest.mark.slow  # tests/engine/models/test_chunked_head.py has fewer classes
def test_a_million_classes_take_the_memory_of_two_chunks(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with (tmp_path / "weights").open("wb") as file:
        for first in range(0, CLASSES, ROWS):
            rng.standard_normal((min(ROWS, CLASSES - first), WIDTH), np.float32).tofile(file)
    files = tmp_path / "weights", tmp_path / "gradient"
    line = [sys.executable, "-c", MILLION, *files, CLASSES, ROWS, WIDTH]
    done = subprocess.run([*map(str, line)], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    print(f"{found['mib']:.1f} MiB, {found['seconds']:.2f} s")
    assert CHUNK_MIB < found["mib"] < 2 * CHUNK_MIB + SLACK_MIB

    weights, gradient = (np.memmap(path, np.float32, "r", shape=(CLASSES, WIDTH)) for path in files)
    rng = np.random.default_rng(1)
    features, labels = rng.normal(size=(SAMPLES, WIDTH)).astype(np.float32), rng.integers(0, CLASSES, SAMPLES)
    expected, sums = whole(features.astype(np.float64), labels, weights)
    np.testing.assert_allclose(found["losses"], expected, rtol=1e-6)

    some = np.setdiff1d(rng.integers(0, CLASSES, 100), labels)  # of no sample, so without margins
    rows = weights[some].astype(np.float64)
    shares = np.exp(scaled_cosines(features.astype(np.float64), rows, SCALE) - sums[:, None]) / SAMPLES
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    along = SCALE * shares.T @ (features / np.linalg.norm(features, axis=1, keepdims=True))
    right = (along - rows * (along * rows).sum(axis=1, keepdims=True) / lengths**2) / lengths
    np.testing.assert_allclose(gradient[some], right, rtol=1e-3, atol=1e-4 * np.abs(right).max())
