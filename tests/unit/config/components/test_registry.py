"""Parsing the names that take numbers; --optimizer together with --momentum."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mxtrain import config
from mxtrain.config.components import registry
from mxtrain.config.components.registry import LEFT_OUT_OPTIMIZERS, MOMENTUM, OPTIMIZERS
from mxtrain.core.errors import UsageError


def resolved(*arguments: str) -> dict[str, float]:
    return registry.optimizer(config.parse(["--optimizer", *arguments]).optim).hyperparameters


def test_numbers_and_momentum_meet() -> None:
    assert resolved("sgd") == {"momentum": 0.9}
    assert resolved("sgd", "--momentum", "0.5") == {"momentum": 0.5}
    assert resolved("sgd:momentum=0.5") == {"momentum": 0.5}
    assert resolved("sgd:momentum=0.5", "--momentum", "0.5") == {"momentum": 0.5}
    assert resolved("adamw:beta2=0.95,epsilon=1e-6") == {"beta1": 0.9, "beta2": 0.95, "epsilon": 1e-6}
    assert resolved("adamw:beta2=0.95", "--momentum", "0.8")["beta1"] == 0.8
    assert resolved("rmsprop:centered=1", "--momentum", "0.8")["gamma2"] == 0.8
    assert resolved("ftml")["beta1"] == 0.6


def test_momentum_has_a_number_of_that_name_to_go_to() -> None:
    assert all(key in OPTIMIZERS[name] for name, key in MOMENTUM.items())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["adamv"], "--optimizer adamv: unknown name; did you mean .*'adamw'"),
        (["adamw:beta3=0.9"], "--optimizer adamw: no number 'beta3'; did you mean"),
        (["adamw:beta1=1"], "beta1=1: give 0 to 0.999999"),
        (["adam:epsilon=0"], "epsilon=0: give 1e-16 to 1"),
        (["rmsprop:centered=yes"], "centered=yes: not a whole number"),
        (["rmsprop:gamma2=0.5"], "gamma2 is the centered one's; add centered=1"),
        (["sgd:momentum=0.5", "--momentum", "0.8"], "--momentum 0.8: .* says 0.5; leave one of them out"),
        (
            ["adagrad", "--momentum", "0.8"],
            "--momentum 0.8: --optimizer adagrad has none; leave --momentum out",
        ),
        (["rmsprop", "--momentum", "0.8"], "--momentum 0.8: --optimizer rmsprop has none"),
        (["ftml", "--momentum", "0.8"], "--momentum 0.8: --optimizer ftml has none"),
        *(([name], f"--optimizer {name}: left out, because .*; give ") for name in LEFT_OUT_OPTIMIZERS),
    ],
)
def test_an_optimizer_that_does_not_fit_is_refused_in_one_line(arguments: list[str], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as refused:
        resolved(*arguments)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_docs_give_every_optimizer_its_numbers(name: str) -> None:
    page = Path(__file__).parents[4] / "docs" / "optimizing.md"
    numbers = ", ".join(f"`{key}={number.default:g}`" for key, number in OPTIMIZERS[name].items())
    assert f"| `{name}` | {numbers} |" in page.read_text()


def test_defaults_fill_in_and_the_crop_comes_first() -> None:
    crop, flip = registry.augmentations(" resized_crop:scale_min=0.2,ratio_max=2 + flip")
    assert crop.name == "resized_crop"
    assert crop.hyperparameters == {"scale_min": 0.2, "scale_max": 1.0, "ratio_min": 3 / 4, "ratio_max": 2.0}
    assert flip == ("flip", {"p": 0.5})
    assert [part.name for part in registry.augmentations("flip:p=1")] == ["none", "flip"]
    assert [part.name for part in registry.augmentations("none")] == ["none"]


def test_whole_numbers_stay_whole() -> None:
    pad = registry.augmentations("pad_crop:pad=2")[0].hyperparameters["pad"]
    assert pad == 2
    assert isinstance(pad, int)


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("resised_crop", "did you mean 'resized_crop'"),
        ("resised_crop:scale_min=0.1", "did you mean 'resized_crop'"),
        ("resized_crop:scale=0.1", "no number 'scale'; did you mean"),
        ("none:size=3", r"no number 'size' \(it has none\)"),
        ("flip:0.3", "no number '0.3'"),
        ("flip:p=often", "flip:p=often: not a number"),
        ("pad_crop:pad=1.5", "not a whole number"),
        ("flip:p=1.1", "flip:p=1.1: give 0 to 1"),
        ("flip:p=nan", "give 0 to 1"),
        ("resized_crop:scale_min=0.9,scale_max=0.5", "scale_min=0.9 is above scale_max=0.5"),
        ("flip+resized_crop", "resized_crop has to come first"),
        ("none+pad_crop", "pad_crop has to come first"),
        ("", "a name is missing"),
        ("flip++flip", "a name is missing"),
        ("no_such_module:jitter", "no module 'no_such_module'"),
        ("color_jitter", "did you mean 'colour_jitter'"),
        ("colour_jitter:hue=0.6", "hue=0.6: give 0 to 0.5"),
        ("randaugment:n=2,m=11", "m=11: give 0 to 10"),
        ("randaugment:m=4.5", "not a whole number"),
        ("erase:scale_min=0.5,scale_max=0.4", "scale_min=0.5 is above scale_max=0.4"),
    ],
)
def test_an_augmentation_that_cannot_be_built_is_refused_in_one_line(spec: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as refused:
        registry.augmentations(spec)
    assert str(refused.value).startswith("--augment")
    assert "\n" not in str(refused.value)


def test_checking_a_run_loads_neither_opencv_nor_numpy() -> None:
    program = (
        "import sys; from mxtrain import config; from mxtrain.config.checks import run_checks as checks\n"
        "checks.check_description(config.parse(['--train', 'a.rec', '--augment', 'pad_crop:pad=2+flip']))\n"
        "assert not {'cv2', 'numpy', 'mxnet'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)
