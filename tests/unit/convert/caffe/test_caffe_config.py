"""Caffe's recipes as configs: the same rates step by step, the same pixels, and a word on all that has no flag."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest

from mxtrain import config
from mxtrain.convert import convert
from mxtrain.convert.caffe.caffe_net import recognised
from mxtrain.convert.caffe.prototxt import Field, Message, Word
from mxtrain.core.errors import DataError, UsageError
from mxtrain.data.loading import run_plan
from mxtrain.optim import schedules
from tests.support.commands import Command

SAMPLES, BATCH = 1000, 48

SOLVER = """net: "train_val.prototxt"
test_iter: 10
test_interval: 5
base_lr: 0.05
max_iter: 200
momentum: 0.8
weight_decay: 0.0005
display: 20
snapshot: 40
snapshot_prefix: "models/tiny"
random_seed: 7
"""

NET = """name: "Tiny"
layer {
  name: "data" type: "Data" top: "data" top: "label"
  include { phase: TRAIN }
  transform_param { mirror: true crop_size: 28 mean_value: 104 mean_value: 117 mean_value: 123 scale: 0.017 }
  data_param { source: "db/train_lmdb" batch_size: 48 backend: LMDB prefetch: 4 }
}
layer {
  name: "data" type: "Data" top: "data" top: "label"
  include { phase: TEST }
  data_param { source: "db/val_lmdb" batch_size: 10 backend: LMDB }
}
layer {
  name: "conv1" type: "Convolution"
  param { lr_mult: 1 decay_mult: 1 }
  param { lr_mult: 2 decay_mult: 0 }
  convolution_param { num_output: 20 weight_filler { type: "xavier" } }
}
layer { name: "ip1" type: "InnerProduct" param { lr_mult: 0 } inner_product_param { num_output: 10 } }
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Convert a solver with these lines besides, and a net, to what `convert` returns."""

    def make(more: str = "", solver: str = SOLVER, net: str = NET, samples: int = SAMPLES) -> dict[str, Any]:
        (tmp_path / "solver.prototxt").write_text(solver + more)
        (tmp_path / "train_val.prototxt").write_text(net)
        return convert(tmp_path / "solver.prototxt", tmp_path / "run.yaml", samples=samples)

    return make


POLICIES: dict[str, tuple[str, Callable[[int], float]]] = {
    "fixed": ('lr_policy: "fixed"', lambda i: 1.0),
    "step": ('lr_policy: "step" gamma: 0.5 stepsize: 33', lambda i: 0.5 ** (i // 33)),
    "multistep": (
        'lr_policy: "multistep" gamma: 0.3 stepvalue: 50 stepvalue: 77 stepvalue: 900',
        lambda i: 0.3 ** ((i >= 50) + (i >= 77)),
    ),
    "poly": ('lr_policy: "poly" power: 0.5', lambda i: (1 - i / 200) ** 0.5),
    "inv": ('lr_policy: "inv" gamma: 0.01 power: 0.75', lambda i: (1 + 0.01 * i) ** -0.75),
    "exp": ('lr_policy: "exp" gamma: 0.99', lambda i: 0.99**i),
}


@pytest.mark.parametrize("policy", POLICIES)
def test_the_rate_of_each_step_is_caffes(
    recipe: Callable[..., dict[str, Any]], tmp_path: Path, policy: str
) -> None:
    line, factor = POLICIES[policy]
    recipe(line)
    optim = config.read(tmp_path / "run.yaml").optim
    length = run_plan.run_length(optim, SAMPLES)
    num_steps = length.num_steps
    assert num_steps == 200 and optim.batch_size == BATCH
    rate = schedules.rate_function(optim, length)
    found = [rate(step) for step in range(num_steps)]
    assert np.allclose(found, [0.05 * factor(step) for step in range(num_steps)], rtol=1e-6)


def test_flags_are_those_of_the_files(recipe: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    flags = recipe('type: "Nesterov" iter_size: 2 clip_gradients: 35')["flags"]
    assert (flags["batch_size"], flags["micro_batch"]) == (96, 48)
    assert (flags["max_steps"], flags["epochs"]) == (200, math.ceil(200 / math.ceil(1000 / 96)))
    assert (flags["optimizer"], flags["momentum"], flags["clip_norm"], flags["seed"]) == ("nag", 0.8, 35, 7)
    assert (flags["evaluate_steps"], flags["checkpoint_steps"], flags["out"]) == (5, 40, "runs/tiny")
    assert (flags["train"], flags["val"]) == ("data/train_lmdb.rec", "data/val_lmdb.rec")
    assert (flags["image_size"], flags["val_resize"]) == (28, 32)
    assert (
        flags["augment"].endswith("+flip")
        and float(flags["augment"].split("=")[1].split(",")[0]) == (28 / 32) ** 2
    )
    assert (flags["lr_scale"], flags["decay_all"], flags["init"]) == ("*bias=2", False, "xavier")
    mean, deviation = ([float(each) for each in flags[name].split(",")] for name in ("mean", "deviation"))
    pixel = np.array([200.0, 100.0, 50.0])  # red, green, blue
    assert np.allclose((pixel / 255 - mean) / deviation, (pixel - [123, 117, 104]) * 0.017, rtol=1e-5)
    run = config.read(tmp_path / "run.yaml")
    assert run.optim.momentum == 0.8 and run.model.model == "small_cnn"


@pytest.mark.parametrize(
    ("lines", "optimizer"),
    [
        ('type: "Adam" momentum2: 0.95 delta: 1e-6', "adam:beta2=0.95,epsilon=1e-06"),
        ('type: "RMSProp" rms_decay: 0.98', "rmsprop:gamma1=0.98"),
        ("solver_type: ADAGRAD delta: 1e-7", "adagrad:epsilon=1e-07"),
        ('type: "AdaDelta" delta: 1e-6', "adadelta:rho=0.8,epsilon=1e-06"),
        ("solver_type: NESTEROV", "nag"),
    ],
)
def test_optimizers_are_taken_over(recipe: Callable[..., dict[str, Any]], lines: str, optimizer: str) -> None:
    assert recipe(lines)["flags"]["optimizer"] == optimizer


def test_what_has_no_flag_is_listed_with_its_line(
    recipe: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    notes = recipe('average_loss: 20\nregularization_type: "L1"\nunheard_of: 3\ntype: "Other"\n')["notes"]
    text = (tmp_path / "run.yaml").read_text()
    for place, what in (
        ("solver.prototxt:2", "test_iter: 10"),
        ("solver.prototxt:8", "display: 20"),
        ("solver.prototxt:12", "average_loss: 20"),
        ("solver.prototxt:13", "regularization_type: L1"),
        ("solver.prototxt:14", "unheard_of: 3: has no counterpart"),
        ("solver.prototxt:15", "type: Other: is not known"),
        ("train_val.prototxt:5", "mean_value"),
        ("train_val.prototxt:6", "prefetch: 4"),
        ("train_val.prototxt:19", "layer ip1: lr_mult 0: is --freeze"),
    ):
        (line,) = [note for note in notes if f"{place}: {what}" in note]
        assert line in text


def layers(*names: str, convolutions: int = 0) -> Message:
    kinds = ["Convolution"] * convolutions + ["ReLU"] * (len(names) - convolutions)
    return Message(
        Field("layer", Message([Field("name", name, 1), Field("type", kind, 1)]), 1)
        for name, kind in zip(names, kinds)
    )


@pytest.mark.parametrize(
    ("net", "model"),
    [
        (layers("conv1", *["res2a_branch2a"] * 52, convolutions=53), "resnet50_v1"),
        (layers("conv1_1", *["x"] * 12, "fc6", convolutions=13), "vgg16"),
        (layers("conv1", "conv5", "fc6", "fc7", "fc8"), "alexnet"),
        (layers("conv1", "inception_3a/1x1"), "googlenet"),
        (layers("conv1", "conv2_1/dw"), "mobilenet1.0"),
        (layers("something"), ""),
    ],
)
def test_nets_are_known_by_their_layers(net: Message, model: str) -> None:
    assert recognised(net)[0] == model


def test_the_old_format_is_read_too(recipe: Callable[..., dict[str, Any]]) -> None:
    net = """layers { name: "data" type: DATA include { phase: TRAIN } data_param { source: "db" batch_size: 16 } }
    layers { name: "conv1" type: CONVOLUTION blobs_lr: 1 blobs_lr: 2 weight_decay: 1 weight_decay: 0 }"""
    flags = recipe(net=net)["flags"]
    assert (flags["batch_size"], flags["train"], flags["lr_scale"]) == (16, "data/db.rec", "*bias=2")
    assert isinstance(Word("x"), str) and flags["decay_all"] is False


def test_what_is_missing_is_asked_for(recipe: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="give --samples"):
        recipe(samples=0)
    assert recipe(samples=0, net=NET.replace("db/train", "ilsvrc12_train"))["flags"]["epochs"] == 1
    with pytest.raises(DataError, match=r"solver\.prototxt:1: base_lr is 'high', not a number"):
        recipe(solver='base_lr: high max_iter: 3 net: "train_val.prototxt"')
    with pytest.raises(UsageError, match=r"its net other\.prototxt is neither here nor beside it"):
        recipe(solver='base_lr: 1 max_iter: 3 net: "other.prototxt"')
    with pytest.raises(DataError, match="no data layer of phase TRAIN says its batch_size"):
        recipe(net="name: 'empty'")
    with pytest.raises(UsageError, match=r"ends in \.yaml"):
        convert(tmp_path / "solver.prototxt", tmp_path / "out", samples=SAMPLES)
    with pytest.raises(UsageError, match=r"no solver, it has neither base_lr nor max_iter"):
        convert(tmp_path / "train_val.prototxt", tmp_path / "a.yaml", samples=SAMPLES)


def test_fit_trains_by_it(
    recipe: Callable[..., dict[str, Any]], tmp_path: Path, shapes: Path, command: Command
) -> None:
    (tmp_path / "solver.prototxt").write_text(SOLVER + 'lr_policy: "inv" gamma: 0.01 power: 0.75')
    (tmp_path / "train_val.prototxt").write_text(NET.replace("batch_size: 48", "batch_size: 16"))
    files = [tmp_path / "train_val.prototxt", tmp_path / "solver.prototxt", tmp_path / "run.yaml"]
    done = command("mxtrain.convert", *files, "--samples", 64, cold=True)
    assert done.returncode == 0, done.stderr
    own = [
        "--train",
        shapes / "train.rec",
        "--val",
        shapes / "val.rec",
        "--num-classes",
        2,
        "--max-steps",
        10,
    ]
    done = command("mxtrain.fit", "--config", files[-1], *own, "--out", tmp_path / "run", "--log", "none")
    assert done.returncode == 0, done.stderr
    assert "val accuracy" in done.stdout + done.stderr
