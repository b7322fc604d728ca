"""Weights from files of every kind that Gluon writes, and the report of what did not fit."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mxtrain.core.errors import DataError
from mxtrain.models.contract import of_pictures
from mxtrain.models.nets import zoo
from mxtrain.models.parameters import initializers, pretrained, weights
from mxtrain.runtime import gluoncv, mx
from tests.support.nets.training_steps import QUICK_RESNET, assert_equal

CPU = [mx.cpu(0), mx.cpu(1)]


def net_of(seed: int, num_classes: int = 4, name: str = QUICK_RESNET) -> Any:
    net = zoo.build(name, num_classes)
    initializers.initialize(net, "msra", CPU, seed)
    zoo.compile(net, name, CPU, of_pictures(16, num_classes))
    return net


def arrays(net: Any) -> dict[str, np.ndarray]:
    return {name: p.list_data()[-1].asnumpy() for name, p in weights.named_parameters(net).items()}


def save_parameters(net: Any, folder: Path) -> Path:
    net.save_parameters(str(folder / "net.params"))
    return folder / "net.params"


def save_long_names(net: Any, folder: Path) -> Path:
    net.collect_params().save(str(folder / "net.params"))
    return folder / "net.params"


def export(net: Any, folder: Path) -> Path:
    with mx.Context(mx.cpu(0)):
        net(mx.nd.zeros((1, 3, 16, 16)))
        net.export(str(folder / "net"))
    return folder / "net-0000.params"


def save_inside_another(net: Any, folder: Path) -> Path:
    named = {f"model.net.{name}": p.list_data()[0] for name, p in weights.named_parameters(net).items()}
    mx.nd.save(str(folder / "net.params"), named)
    return folder / "net.params"


def save_half_precision(net: Any, folder: Path) -> Path:
    named = {name: p.list_data()[0].astype("float16") for name, p in weights.named_parameters(net).items()}
    mx.nd.save(str(folder / "net.params"), named)
    return folder / "net.params"


@pytest.mark.parametrize("save", [save_parameters, save_long_names, export, save_inside_another])
def test_every_kind_of_file_fits(save: Any, tmp_path: Path) -> None:
    theirs, ours = net_of(seed=1), net_of(seed=2)
    pretrained.load(ours, save(theirs, tmp_path))
    assert_equal(arrays(ours), arrays(theirs))


def test_half_precision_becomes_the_nets_own(tmp_path: Path) -> None:
    theirs, ours = net_of(seed=1), net_of(seed=2)
    pretrained.load(ours, save_half_precision(theirs, tmp_path))
    found = arrays(ours)
    for name, value in arrays(theirs).items():
        assert found[name].dtype == np.float32
        np.testing.assert_allclose(found[name], value, rtol=1e-3, atol=1e-6)


def test_gluoncvs_files_fit(tmp_path: Path) -> None:
    """As its model zoo publishes them, with 1000 classes, into a net of ours with 4."""
    theirs = gluoncv.model_zoo.get_model("resnet18_v1b", classes=1000)
    theirs.initialize()
    theirs(mx.nd.zeros((1, 3, 32, 32)))
    ours = net_of(seed=2, name="resnet18_v1b")
    before = arrays(ours)
    pretrained.load(ours, save_parameters(theirs, tmp_path))
    head = {name: value for name, value in before.items() if name.startswith("fc.")}
    assert_equal(arrays(ours), {**arrays(theirs), **head})


def test_the_log_reports_what_was_loaded_and_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    theirs, ours = net_of(seed=1, num_classes=9), net_of(seed=2)
    named = {name: parameter.list_data()[0] for name, parameter in weights.named_parameters(theirs).items()}
    del named["0.weight"]
    named["old.weight"] = mx.nd.zeros(3)
    mx.nd.save(str(tmp_path / "net.params"), named)
    with caplog.at_level(logging.INFO):
        pretrained.load(ours, tmp_path / "net.params")
    num_all = len(weights.named_parameters(ours))
    said = [record.getMessage().split("net.params: ")[1] for record in caplog.records]
    assert said == [
        f"{num_all - 3} of {num_all} parameters taken",
        "left out, of another shape: 8.weight ((9, 16) there, (4, 16) here), 8.bias ((9,) there, (4,) here)",
        "left out, not in the file: 0.weight",
        "left out, not in the net: old.weight",
    ]


def test_long_lists_in_the_report_are_shortened() -> None:
    found = pretrained.match_names({"a": (1,), "0": (2,)}, {str(n): (2,) for n in range(10)}, {})
    assert found.report()[1] == "left out, not in the file: 1, 2, 3, 4, 5, 6 and 3 more"


def test_prefixes_on_one_side_and_on_both() -> None:
    ours = {"body.0.weight": (1,), "body.1.weight": (2,)}
    long_names = {"body.0.weight": "net3_conv0_weight", "body.1.weight": "net3_conv1_weight"}
    for first, second in [
        ("body.0.weight", "body.1.weight"),
        ("model.body.0.weight", "model.body.1.weight"),
        ("0.weight", "1.weight"),
        ("net3_conv0_weight", "net3_conv1_weight"),
        ("net0_conv0_weight", "net0_conv1_weight"),
        ("conv0_weight", "conv1_weight"),
    ]:
        found = pretrained.match_names({first: (1,), second: (2,)}, ours, long_names)
        assert found.loaded == {"body.0.weight": first, "body.1.weight": second}, first
        assert not (found.missing or found.unexpected or found.mismatched)


def not_arrays(path: Path) -> None:
    path.write_bytes(b"not arrays at all")


def cut_short(path: Path) -> None:
    mx.nd.save(str(path), {"0.weight": mx.nd.zeros((8, 3, 3, 3))})
    path.write_bytes(path.read_bytes()[:-100])


def without_names(path: Path) -> None:
    mx.nd.save(str(path), [mx.nd.zeros(3)])


def of_another_net(path: Path) -> None:
    mx.nd.save(str(path), {"encoder.weight": mx.nd.zeros(3)})


def of_other_shapes(path: Path) -> None:
    mx.nd.save(str(path), {"0.weight": mx.nd.ones((8, 3, 5, 5))})


def not_finite(path: Path) -> None:
    mx.nd.save(str(path), {"0.weight": mx.nd.full((8, 3, 3, 3), float("nan"))})


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (not_arrays, "not a whole file"),
        (cut_short, "not a whole file"),
        (without_names, "without names"),
        (
            of_another_net,
            "fits nothing of this net: it has encoder.weight (3,), the net 0.weight (8, 3, 3, 3)",
        ),
        (
            of_other_shapes,
            "fits nothing of this net: it has 0.weight (8, 3, 5, 5), the net 0.weight (8, 3, 3, 3)",
        ),
        (not_finite, "'0.weight' holds numbers that are not finite"),
    ],
)
def test_files_that_do_not_fit_are_refused(write: Any, words: str, tmp_path: Path) -> None:
    write(tmp_path / "bad.params")
    with pytest.raises(DataError) as refused:
        pretrained.load(net_of(seed=0), tmp_path / "bad.params")
    assert words in str(refused.value) and "bad.params" in str(refused.value)
    assert "\n" not in str(refused.value)
