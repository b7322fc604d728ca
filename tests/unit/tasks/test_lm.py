"""Language models: what counts in a window, perplexity and bits per byte, and data sets that do not fit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mxtrain import config
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.interfaces import Record
from mxtrain.tasks import lm, registry
from mxtrain.train.open_data import open_source
from tests.support.data.token_data import END, write_tokens


def run_of(path, flags=""):
    return config.parse(f"--task lm --train {path} --window 4 {flags}".split())


def task_of(path, flags=""):
    run = run_of(path, flags)
    train = open_source("--train", str(path), run)
    return registry.of_data(run, train, None), train


def test_behind_the_end_of_the_last_window_nothing_counts():
    row = {name: np.full(4, 77, np.int32) for name in ("tokens", "targets")}
    assert lm.WindowReader()(Record(0, 0.0, np.array([END, 5, 6])), None, row) is row
    assert row["tokens"].tolist() == [END, 5, 0, 0]
    assert row["targets"].tolist() == [5, 6, -1, -1]


class Losses:
    def __init__(self, values):
        self.values = np.array(values)

    def asnumpy(self):
        return self.values


def test_bits_are_counted_for_bytes_and_perplexity_for_tokens():
    metric = lm.TextMetric(np.array([1] * 256 + [0]))
    windows = [([[3.0, 1.0, 2.0]], [[65, 66, END]]), ([[1.0, 0.0, 0.0]], [[67, -1, -1]])]
    states = [metric.state(Losses(losses), {"targets": np.array(targets)}) for losses, targets in windows]
    found = metric.finish(states)
    assert found == {
        "perplexity": pytest.approx(math.exp(7 / 4)),
        "bits_per_byte": pytest.approx(7 / math.log(2) / 3),
    }
    unknown = lm.TextMetric(None)
    assert set(unknown.finish([unknown.state(Losses([[2000.0]]), {"targets": np.array([[1]])})])) == {
        "perplexity"
    }


def test_a_net_is_evaluated_on_its_own_tokens_alone(tmp_path):
    task, _ = task_of(write_tokens(tmp_path / "a.rec", [[1, 2, 3]]))
    assert task.summary() == "windows of 4 tokens, of 257 by bytes"
    for options, says in [
        ({"vocab_size": 300}, "another vocab size than the net was trained with"),
        ({"tokenizer": "words:split"}, "another tokenizer than"),
    ]:
        other = write_tokens(tmp_path / "b.rec", [[1]], **options)
        with pytest.raises(DataError, match=says):
            task.check(open_source("--val", str(other), task.run))


def test_what_does_not_go_with_text_is_refused(tmp_path):
    path = write_tokens(tmp_path / "a.rec", [[1, 2, 3]])
    for flags, says in [
        ("--model resnet18_v1b", "--model resnet18_v1b goes with"),
        ("--label-smoothing 0.1", "--label-smoothing goes with"),
        ("--image-size 32", "--image-size goes with"),
        ("--image-size 224", "--image-size goes with"),  # the default of others
    ]:
        with pytest.raises(UsageError, match=says):
            registry.check_flags(run_of(path, flags))
    registry.check_flags(run_of(path, "--mixup 0 --label-smoothing 0 --cache none"))
    with pytest.raises(UsageError, match=r"--window goes with --task .*lm"):
        registry.check_flags(config.parse(["--train", "a.rec", "--window", "3"]))
    with pytest.raises(UsageError, match="give a lower --micro-batch or --window"):
        task_of(path, "--window 1000000 --batch-size 32")


def test_spans_become_other_tokens_and_targets_stay(tmp_path):
    path = write_tokens(tmp_path / "a.rec", [list(range(40)), list(range(40))])
    run = config.parse(f"--task lm --train {path} --window 82 --augment mask_spans:p=0.4,mean=4".split())
    train = open_source("--train", str(path), run)
    reader = registry.of_data(run, train, None).reader(is_training=True)
    plain = {name: np.zeros(82, np.int32) for name in ("tokens", "targets")}
    lm.WindowReader()(train.read(0), None, plain)
    changed = []
    for seed in (1, 1, 2):
        row = {name: np.zeros(82, np.int32) for name in ("tokens", "targets")}
        reader(train.read(0), np.random.default_rng(seed), row)
        np.testing.assert_array_equal(row["targets"], plain["targets"])
        np.testing.assert_array_equal(row["tokens"] == END, plain["tokens"] == END)
        assert 20 <= (row["tokens"] != plain["tokens"]).sum() <= 33 and row["tokens"].max() <= END
        changed.append(row["tokens"].tolist())
    assert changed[0] == changed[1] != changed[2]
    assert registry.of_data(run, train, None).reader(is_training=False) == lm.WindowReader()
