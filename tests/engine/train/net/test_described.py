"""A net's bytes are known before it is built, and a run that its host has no room for is refused."""

from __future__ import annotations

from typing import Any

import pytest

from mxtrain import config
from mxtrain.config.components.optimizers import OPTIMIZERS
from mxtrain.core.errors import UsageError
from mxtrain.models.parameters import weights
from mxtrain.optim import optimizer_state, optimizers
from mxtrain.runtime import mx
from mxtrain.tasks import lm
from mxtrain.tasks.segmentation import Segmentation
from mxtrain.train import job as jobs
from mxtrain.train.context import build_context
from mxtrain.train.job import TrainingJob
from mxtrain.train.net import build_net, described, memory_kinds, net_bytes
from tests.support.nets.training_steps import CLASSES, job_of

GPT = "--task lm --model gpt:layers=3,heads=2,width=32 --window 8 --batch-size 4 --micro-batch 2"
PICTURES = "--model resnet18_v1 --image-size 32 --batch-size 4 --micro-batch 2"


def job_from(line: str) -> TrainingJob:
    run = config.parse(["--train", "t.rec", *line.split()])
    if run.model.task != "lm":
        return job_of(run, CLASSES)
    task = lm.LanguageModel(run, {"tokenizer": "bytes", "vocab_size": 50, "end_token": 49, "window": 8})
    return jobs.of_data(task, range(100))


def built(job: TrainingJob) -> Any:
    with build_net.compiling("off"):
        return build_context(job, is_trial=True)


@pytest.mark.parametrize(
    "line", [f"{GPT} --optimizer adam", f"{PICTURES} --optimizer sgd --freeze features.0.*"]
)
def test_a_net_that_is_described_has_the_bytes_of_the_one_that_is_built(line: str) -> None:
    job = job_from(line)
    known = described.of_job(job)
    assert known is not None
    before, context = described.num_bytes(job, known), built(job)
    after = memory_kinds.of_built(context)
    for name in ("weights", "trained", "state", "largest", "split", "averages"):
        assert getattr(before, name) == getattr(after, name) > -1, name
    assert 0.5 < before.computed / after.computed < 2 and len(before.segments) > 1
    assert sum(each.weights for each in before.segments) == before.weights


def test_what_a_loss_enlarges_counts_in_its_size() -> None:
    line = "--task segmentation --model fastscnn_citys --image-size 64 --batch-size 4 --micro-batch 2"
    found = []
    for num_classes, aux_weight in ((4, 0.5), (40, 0.5), (40, 0)):
        run = config.parse(["--train", "t.rec", *line.split(), "--aux-weight", str(aux_weight)])
        task = Segmentation(run, {"class_names": list(map(str, range(num_classes)))})
        job = jobs.of_data(task, range(100))
        known = described.of_job(job)
        assert known is not None
        found.append(described.num_bytes(job, known).computed)
    pixels = 2 * 64 * 64 * 4 * net_bytes.LOSSES  # bytes of a class and head
    assert found[1] - found[0] == pytest.approx(36 * 2 * pixels, rel=0.1)  # its own answer is small
    assert found[1] - found[2] == pytest.approx(40 * pixels, rel=0.1)


def test_describing_a_net_counts_no_names() -> None:
    job = job_from(GPT)
    with mx.name.NameManager():
        assert described.of_job(job) is not None
        named = weights.named_parameters(job.task.build_net())
    assert all(parameter.name.startswith("gpt0_") for parameter in named.values())


@pytest.mark.parametrize("flags", ["--model math:nothing", "--prune 0.5 --model resnet18_v1"])
def test_nothing_is_known_of_a_program_s_net_and_of_a_thinned_one(flags: str) -> None:
    assert described.of_job(job_from(f"--image-size 32 --batch-size 4 {flags}")) is None


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_the_state_of_a_large_array_is_known_without_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    optimizer = optimizers.build(config.parse(["--train", "t.rec", "--optimizer", name]).optim)
    made = optimizer_state.state_arrays(optimizer.create_state_multi_precision(0, mx.nd.empty((6, 5))))
    num_bytes = sum(4 * array.size for array in made)
    monkeypatch.setattr(net_bytes, "LARGE", 10)
    assert net_bytes.state_bytes(optimizer, [(6, 5)]) == num_bytes


def test_what_does_not_fit_is_refused_with_what_does() -> None:
    job = job_from(f"{GPT} --optimizer adam")
    known = described.of_job(job)
    assert known is not None
    facts = described.num_bytes(job, known)
    sure = facts.weights + 3 * facts.trained + facts.state  # float64 totals of two micro-batches
    described.check(job, sure, 0)
    with pytest.raises(
        UsageError, match=r"^--model gpt:layers=3.* on this host, which has 1 MB left; give more"
    ):
        described.check(job, sure - 1, 0)


def test_what_may_not_fit_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    job = job_from(f"{GPT} --optimizer adam")
    described.check(job, 10**9, 0)
    assert not caplog.records
    described.check(job, 10**6, 0)
    (record,) = caplog.records
    assert "and copies of it, take about" in record.message
