"""The input pipeline gives each step its own batches, however many workers divide them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from mxtrain import config
from mxtrain.core.errors import DataError
from mxtrain.data.loading import order
from mxtrain.data.records.record_file import RecordFile, open_records
from mxtrain.tasks.classification import Classification
from mxtrain.train import input_pipeline
from mxtrain.train import job as jobs
from tests.support.data.loading import jpegs, write_records

NUM_SAMPLES, NUM_STEPS = 17, 7  # three steps of an epoch, the last one of three samples


def with_bad_ones(folder: Path, *places: int) -> RecordFile:
    payloads = list(jpegs(NUM_SAMPLES))
    for place in places:
        payloads[place] = payloads[place][:-150]
    return write_records(folder / "bad.rec", payloads)


@pytest.mark.parametrize("first_step", [0, 2, 4])
@pytest.mark.parametrize("num_workers", [1, 2, 3, 5])
def test_a_step_takes_its_own_batches(tmp_path: Path, num_workers: int, first_step: int) -> None:
    """Also the short last one of an epoch, of which some workers have nothing."""
    write_records(tmp_path / "t.rec", jpegs(NUM_SAMPLES))
    records = open_records(tmp_path / "t.rec")
    flags = "--batch-size 7 --micro-batch 2 --image-size 8 --devices cpu:0,1 --kvstore dist_sync"
    run = config.parse([*flags.split(), "--num-workers", str(num_workers)])
    seen: list[list[int]] = [[] for _ in range(NUM_STEPS)]
    for rank in range(num_workers):
        group = SimpleNamespace(rank=rank, world_size=num_workers)
        job = jobs.of_data(Classification.numbered(run, NUM_SAMPLES), records)
        job, steps = dataclasses.replace(job, group=group), range(first_step, NUM_STEPS)
        with input_pipeline.open_pipeline(job, steps) as pipeline:
            for step in steps:
                batches = pipeline.batches(step)
                taken = list(batches)
                assert len(taken) == len(batches) and {batch.request.step for batch in taken} <= {step}
                for batch in taken:
                    seen[step] += batch.request.samples.tolist()
                    pipeline.release(batch)
            assert next(iter(pipeline.loader), None) is None, "nothing is left over"
    sizes = [len(np.unique(samples)) for samples in seen]
    assert sizes == [0] * first_step + [7, 7, 3, 7, 7, 3, 7][first_step:]


@pytest.mark.parametrize("first_step", range(NUM_STEPS))
def test_bad_records_count_with_their_step_and_once_a_run(tmp_path: Path, first_step: int) -> None:
    """However far the loader is ahead, and wherever the run was stopped before."""
    bad = {1, 5, 9, 16}
    records = with_bad_ones(tmp_path, *bad)
    run = config.parse(["--batch-size", "7", "--image-size", "8", "--skip-bad", "4"])
    job = jobs.of_data(Classification.numbered(run, NUM_SAMPLES), records)
    known: tuple[int, ...] = ()
    for start, end in ((0, first_step), (first_step, NUM_STEPS)):
        with input_pipeline.open_pipeline(job, range(start, NUM_STEPS), known) as pipeline:
            for step in range(start, end):
                for batch in pipeline.batches(step):
                    pipeline.release(batch)
                known = pipeline.gather_bad_records(known)
                met = order.epoch_order(NUM_SAMPLES, 0, 0)[: 7 * (step + 1)]
                assert known == tuple(sorted(bad.intersection(met.tolist())))


def test_records_that_were_bad_before_a_restart_count_against_skip_bad(tmp_path: Path) -> None:
    records = with_bad_ones(tmp_path, 1, 5, 16)
    run = config.parse(["--batch-size", "17", "--image-size", "8", "--skip-bad", "2"])
    job = jobs.of_data(Classification.numbered(run, NUM_SAMPLES), records)
    with input_pipeline.open_pipeline(job, range(1, 2), (1, 5)) as pipeline, pytest.raises(
        DataError, match=r"3 bad records, more than --skip-bad 2; the last one: .*record 16"
    ):
        list(pipeline.batches(1))
