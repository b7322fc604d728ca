"""The AUC of a DeepFM on ratings beside PyTorch's with a dense table: from the same weights, by the same batches.

Ratings are lines of user, item, rating from 1 to 5 and time, as MovieLens-100K's `u.data` has them; 4 and 5 are a yes.
One row in ten is held out.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import commands, environments, processes
from benchmarks.harness.tables import Bar
from mxtrain.data.arrays.table_selection import Selection
from mxtrain.data.ids import id_tables
from mxtrain.data.loading import order
from mxtrain.tables import first_values, row_files

BATCH, RATE, EPOCHS = 500, 0.001, 4
BAR = 0.001
COLUMNS = Selection("liked", categories="user,item")


class Pair(NamedTuple):
    """The AUC of both sides from one seed."""

    ours: float
    theirs: float


def measured(options: argparse.Namespace) -> list[Pair]:
    """Return the AUC of both sides for each of three seeds."""
    files = _written(options.ratings, options.folder)
    return [_pair(options, files, seed) for seed in range(3)]


def _written(ratings: Path, folder: Path) -> tuple[Path, Path]:
    """Write rows to train on, whole batches of them, and rows that are held out."""
    table = np.loadtxt(ratings, np.int64)[:, :3]
    table = table[np.random.default_rng(0).permutation(len(table))]
    held_out = table[::10]
    trained = np.delete(table, np.s_[::10], axis=0)
    trained = trained[: len(trained) // BATCH * BATCH]
    paths = folder / "liked_train.csv", folder / "liked_val.csv"
    for path, rows in zip(paths, (trained, held_out)):
        lines = [f"{user},{item},{int(rating >= 4)}" for user, item, rating in rows.tolist()]
        path.write_text("\n".join(["user,item,liked", *lines]), encoding="utf-8")
    return paths


def _pair(options: argparse.Namespace, files: tuple[Path, Path], seed: int) -> Pair:
    out: Path = options.folder / f"auc-{seed}"
    commands.fit(
        out,
        *("--task", "recommendation", "--model", "deepfm:optimizer=adagrad", "--train", files[0]),
        *("--val", files[1], "--target", "liked", "--categories", "user,item", "--batch-size", BATCH),
        *("--micro-batch", BATCH, "--optimizer", "adam", "--lr", RATE, "--schedule", "constant"),
        *("--weight-decay", 0, "--epochs", EPOCHS, "--seed", seed, "--keep-best", 0, "--sample-steps", 0),
    )
    ours = commands.last_score(out, "val_auc")
    job, scores = options.folder / "auc.npz", options.folder / "scores.npy"
    labels = _write_job(out, files, job, seed)
    python = environments.pytorch(options.envs, "torch", "tables")
    processes.run(python, "-m", "benchmarks.tables.torch_auc_side", job, scores)
    return Pair(ours, auc(np.load(scores), labels))


def _write_job(out: Path, files: tuple[Path, Path], job: Path, seed: int) -> Any:
    """Write what PyTorch begins with, and return the labels that are held out."""
    processes.run(sys.executable, "benchmarks/learn/start.py", out, job)
    start = dict(np.load(job))
    layers = sorted({name.rpartition(".")[0] for name in start if name.startswith("head.deep")})
    begun = {
        f"{part}{place}": start[f"{layer}.{part}"]
        for place, layer in enumerate(layers)
        for part in ("weight", "bias")
    }
    trained, val = (id_tables.open_records(path, COLUMNS) for path in files)
    ids = [data.columns["ids"] for data in (trained, val)]
    known, places = np.unique(np.concatenate([each.ravel() for each in ids]), return_inverse=True)
    checkpoint = max((out / "checkpoints").glob("step-*"))
    options = row_files.shares_of(checkpoint, "rows")[0][0].header.table
    np.savez(
        job,
        **begun,
        rows=first_values.rows(options, known),
        ids=places[: ids[0].size].reshape(ids[0].shape),
        val=places[ids[0].size :].reshape(ids[1].shape),
        clicked=trained.labels().astype(np.float32),
        orders=np.stack([order.epoch_order(len(trained), seed, epoch) for epoch in range(EPOCHS)]),
        rate=RATE,
        batch=BATCH,
    )
    return val.labels()


def auc(scores: Any, labels: Any) -> float:
    """Return how often a yes has a higher score than a no; of equal scores a half."""
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    yes = labels > 0
    num_yes = int(yes.sum())
    return float((ranks[yes].sum() - num_yes * (num_yes + 1) / 2) / (num_yes * (len(labels) - num_yes)))


def bars(found: list[Pair]) -> list[Bar]:
    """Return the bar, of the means over seeds."""
    ours, theirs = (statistics.mean(each) for each in zip(*found))
    words = f"{ours:.4f}, {theirs:.4f}"
    return [Bar("AUC, PyTorch's with a dense table", words, f"within {BAR}", abs(ours - theirs) <= BAR)]
