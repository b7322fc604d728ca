"""The steps' feed: each step takes its own batches, whoever has how many of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mxtrain import config
from mxtrain.data.records import open_records
from mxtrain.train import feed
from tests.unit.test_loader import jpegs, write_records

NUM_SAMPLES, NUM_STEPS = 17, 7  # three steps of an epoch, the last one of three samples


@pytest.mark.parametrize("first_step", [0, 2, 4])
@pytest.mark.parametrize("num_workers", [1, 2, 3, 5])
def test_a_step_takes_its_own_batches(tmp_path: Path, num_workers: int, first_step: int) -> None:
    """Also the short last one of an epoch, of which some workers have nothing."""
    write_records(tmp_path / "t.rec", jpegs(NUM_SAMPLES))
    records = open_records(tmp_path / "t.rec")
    flags = "--batch-size 7 --micro-batch 2 --image-size 8 --devices cpu:0,1 --kvstore dist_sync"
    run = config.parse([*flags.split(), "--num-workers", str(num_workers)])
    seen: list[list[int]] = [[] for _ in range(NUM_STEPS)]
    for worker in range(num_workers):
        with feed.opened(run, records, NUM_SAMPLES, first_step, NUM_STEPS, worker) as fed:
            for step in range(first_step, NUM_STEPS):
                batches = fed.batches(step)
                taken = list(batches)
                assert len(taken) == len(batches) and {batch.request.step for batch in taken} <= {step}
                for batch in taken:
                    seen[step] += batch.request.samples.tolist()
                    fed.release(batch)
            assert next(iter(fed.loader), None) is None, "nothing is left over"
    sizes = [len(np.unique(samples)) for samples in seen]
    assert sizes == [0] * first_step + [7, 7, 3, 7, 7, 3, 7][first_step:]
