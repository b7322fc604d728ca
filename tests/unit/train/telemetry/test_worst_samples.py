"""The samples with the largest losses: the same ones, in the same order, whoever has seen which."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.cluster.worker_group import SINGLE_WORKER, WorkerGroup
from mxtrain.train.telemetry.worst_samples import COUNT, WorstSamples
from tests.support.processes.worker_threads import on_workers


class Output:
    def __init__(self, values: Any):
        self.shape, self.asnumpy = values.shape, lambda: values


def result(output: Any, arrays: Any) -> dict[str, Any]:
    return {"output": None if output is None else output.tolist(), "name": f"größe {arrays['label']}"}


def worst(
    losses: Any, group: WorkerGroup = SINGLE_WORKER, micro_batch: int = 7, has_rows: bool = True
) -> list[dict[str, Any]]:
    found = WorstSamples(result)
    starts = range(0, len(losses), micro_batch)
    for start in starts[group.rank :: group.world_size]:
        part = np.arange(start, min(start + micro_batch, len(losses)))
        output = Output(np.stack([part, part], axis=1) if has_rows else np.zeros(()))
        found.add(losses[part], part + 1000, output, {"label": part})
    return found.of_all(group)


LOSSES = np.random.default_rng(0).random(500).round(2).astype(np.float32)  # with many ties


def test_they_are_the_largest_and_of_equals_the_first() -> None:
    found = worst(LOSSES)
    order = np.argsort(-LOSSES, kind="stable")[:COUNT]
    assert [each["sample"] for each in found] == (order + 1000).tolist()
    assert [each["loss"] for each in found] == LOSSES[order].tolist()
    assert [each["output"][0] for each in found] == order.tolist()
    assert found[0]["name"] == f"größe {order[0]}"


@pytest.mark.parametrize("num_workers", [2, 3, 8])
def test_workers_find_those_of_one(num_workers: int) -> None:
    assert on_workers(num_workers, lambda group: worst(LOSSES, group)) == [worst(LOSSES)] * num_workers


def test_fewer_samples_than_workers() -> None:
    assert on_workers(3, lambda group: worst(LOSSES[:2], group, 1)) == [worst(LOSSES[:2])] * 3
    assert on_workers(2, lambda group: worst(LOSSES[:0], group)) == [[], []]


def test_losses_of_several_parts_of_a_sample_are_added_up() -> None:
    rows = np.random.default_rng(1).random((60, 3, 4)).astype(np.float32)
    found = worst(rows)
    expected = np.sort(rows.reshape(60, -1).sum(axis=1, dtype=np.float64))[::-1][:COUNT]
    assert [each["loss"] for each in found] == expected.tolist()


def test_a_loss_of_the_whole_batch_is_no_samples() -> None:
    found = WorstSamples(result)
    found.add(np.ones(()), np.arange(4), None, {})
    found.add(np.ones(3), np.arange(4), None, {})
    assert found.of_all(SINGLE_WORKER) == []


def test_no_number_is_worse_than_any() -> None:
    losses = LOSSES.copy()
    losses[[400, 20, 300]] = np.nan, np.inf, np.nan
    assert [each["sample"] for each in worst(losses)][:3] == [1020, 1300, 1400]
    assert on_workers(3, lambda group: str(worst(losses, group))) == [str(worst(losses))] * 3


def test_a_net_whose_output_has_no_rows_gets_none() -> None:
    assert {each["output"] for each in worst(LOSSES, has_rows=False)} == {None}


def test_what_a_task_says_may_hold_anything() -> None:
    said = {"array": np.arange(3), "number": np.int64(4), "place": Path("a/b")}
    found = WorstSamples(lambda output, arrays: said)
    found.add(np.ones(1), np.arange(1), None, {})
    (worst,) = found.of_all(SINGLE_WORKER)
    assert worst == {"sample": 0, "loss": 1.0, "array": [0, 1, 2], "number": 4, "place": "a/b"}
