"""Parsing --augment: names, numbers and their order."""

from __future__ import annotations

import pytest

from mxtrain.config.components import augmentations
from mxtrain.core.errors import UsageError


def test_defaults_fill_in_and_the_crop_comes_first() -> None:
    crop, flip = augmentations.parse(" resized_crop:scale_min=0.2,ratio_max=2 + flip")
    assert crop.name == "resized_crop"
    assert crop.hyperparameters == {"scale_min": 0.2, "scale_max": 1.0, "ratio_min": 3 / 4, "ratio_max": 2.0}
    assert flip == ("flip", {"p": 0.5})
    assert [part.name for part in augmentations.parse("flip:p=1")] == ["none", "flip"]
    assert [part.name for part in augmentations.parse("none")] == ["none"]


def test_whole_numbers_stay_whole() -> None:
    pad = augmentations.parse("pad_crop:pad=2")[0].hyperparameters["pad"]
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
        augmentations.parse(spec)
    assert str(refused.value).startswith("--augment")
    assert "\n" not in str(refused.value)
