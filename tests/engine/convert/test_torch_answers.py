"""Converted nets answer what torch answered, without torch: weights follow from their keys, answers are recorded.

`tests/data/torch_answers.json` is `benchmarks/converting/torch_answers.py`'s, of torch 2.13.0, torchvision 0.28.0 and
timm 1.0.31. With torch itself, outputs are compared in `tests/e2e/results/test_convert_with_torch.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.converting import seeded
from mxtrain.convert import convert, target_net
from mxtrain.convert.options import ConvertOptions
from mxtrain.convert.torch import state_dict, torch_check, torch_names, torch_weights
from tests.support.nets import torch_nets

RECORDED = json.loads((torch_nets.GOLDEN.parent / "torch_answers.json").read_text())
# The largest differences from torch have one fast net each: BatchNorm's epsilon, and names by place.
FEW = {"torchvision/mobilenet_v3_small", "timm/mobilenetv3_small_100"}


def file_of(net: str, path: Path) -> Path:
    """Write the state_dict that torch had: its keys and shapes are those of `tests/data/torch_keys.json`."""
    scheme, name = net.split("/")
    model = next(model for model in torch_names.KNOWN if torch_names.name_there(model, scheme) == name)
    zeros = {place: np.zeros(shape, np.float32) for place, shape in torch_nets.shapes(model).items()}
    there = torch_weights.give(model, scheme, zeros)
    assert torch_nets.digest(there) == torch_nets.golden()[net]
    arrays = {key: seeded.weight(key, array.shape) for key, array in there.items()}
    with state_dict.write_aside(path, arrays):
        pass
    return path


@pytest.mark.parametrize(
    "net", [net if net in FEW else pytest.param(net, marks=pytest.mark.slow) for net in RECORDED]
)
def test_a_converted_net_answers_what_torch_does(net: str, tmp_path: Path) -> None:
    image_size, recorded = RECORDED[net]["image_size"], np.array(RECORDED[net]["answers"], np.float32)
    source = file_of(net, tmp_path / "there.safetensors")
    done = convert(source, tmp_path / "here.params", image_size=image_size, names=net.split("/")[0])
    here = target_net.built(ConvertOptions(image_size=image_size).run(done["model"]), 10)
    here.load_parameters(str(tmp_path / "here.params"))
    answers = target_net.outputs(here, seeded.pictures(image_size), source)
    assert np.abs(answers - recorded).max() <= torch_check.TOLERANCE * np.abs(recorded).max()
    assert (answers.argmax(axis=1) == recorded.argmax(axis=1)).all()
