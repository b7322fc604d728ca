"""Random changes: their frequency and strength, and their arguments stay unchanged."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
import pytest

from mxtrain.config.components import augmentations as components
from mxtrain.data.augment import augmentations, colours
from mxtrain.data.loading.order import sample_rng


def picture(size: int = 16) -> Any:
    down, across = np.mgrid[0:size, 0:size]
    planes = [down * 8 + 60, across * 8 + 60, (down + across) * 4 + 60]
    return np.clip(np.stack(planes, -1), 0, 255).astype(np.uint8)


def changed(spec: str, image: Any, num_samples: int) -> list[Any]:
    """Apply a change with its defaults to an image, once for each sample."""
    name, numbers = components.parse(spec)[1]
    return [
        components.CHANGES[name].load()(image, sample_rng(0, 0, sample), **numbers)
        for sample in range(num_samples)
    ]


@pytest.mark.parametrize("name", list(components.CHANGES))
def test_the_pixels_handed_in_stay(name: str) -> None:
    """The argument may be another sample's too: a view of a cached picture."""
    image = picture()
    image.flags.writeable = False
    outs = changed(name, image, 20)
    np.testing.assert_array_equal(image, picture())
    assert all(out.shape == image.shape and out.dtype == np.uint8 for out in outs)
    assert any((out != image).any() for out in outs)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("flip", lambda image: image[:, ::-1]),
        ("vertical_flip", lambda image: image[::-1]),
        ("grayscale", colours.gray),
    ],
)
def test_what_is_done_or_not_is_done_as_often_as_told(name: str, expected: Callable[..., Any]) -> None:
    image = picture()

    def share(p: float) -> float:
        outs = changed(f"{name}:p={p}", image, 400)
        assert all((out == image).all() or (out == expected(image)).all() for out in outs)
        return float(np.mean([(out == expected(image)).all() for out in outs]))

    assert share(0) == 0
    assert share(1) == 1
    assert share(0.25) == pytest.approx(0.25, abs=0.08)


def test_rotation_reaches_its_degrees_either_way() -> None:
    """A bright line from the centre to the right is found again 30 pixels from it, above or below."""
    image = np.zeros((81, 81, 3), np.uint8)
    image[40, 40:] = 255
    height = np.arange(20, -21, -1)
    columns = [out[20:61, 70, 0] for out in changed("rotate", image, 300)]
    degrees = np.degrees(np.arctan2([(column * height).sum() / column.sum() for column in columns], 30))
    assert -16.5 < degrees.min() < -13.5
    assert 13.5 < degrees.max() < 16.5
    assert abs(degrees.mean()) < 1.5
    assert degrees.std() == pytest.approx(30 / 12**0.5, rel=0.1), "evenly spread"


def test_brightness_is_spread_evenly_around_one() -> None:
    image = np.full((4, 4, 3), 100, np.uint8)
    spec = "colour_jitter:brightness=0.4,contrast=0,saturation=0"
    factors = np.array([out[0, 0, 0] / 100 for out in changed(spec, image, 600)])
    assert 0.6 <= factors.min() < 0.62
    assert 1.38 < factors.max() <= 1.4
    assert factors.mean() == pytest.approx(1, abs=0.03)
    assert factors.std() == pytest.approx(0.8 / 12**0.5, rel=0.08)


def test_each_colour_changes_with_its_probability() -> None:
    image = np.full((4, 4, 3), 100, np.uint8)
    one = changed("colour_jitter:brightness=0.4,contrast=0,saturation=0,p=0.25", image, 800)
    is_changed = np.array([(out != 100).any() for out in one])
    assert is_changed.mean() == pytest.approx(0.25, abs=0.05)
    coloured = picture()
    both = changed("colour_jitter:brightness=0.4,contrast=0,saturation=0.4,p=0.5", coloured, 400)
    assert np.mean([(out == coloured).all() for out in both]) == pytest.approx(0.25, abs=0.07), (
        "each by itself"
    )
    never = changed("colour_jitter:hue=0.5,p=0", coloured, 5)
    assert all((out == coloured).all() for out in never)


def test_jitter_without_numbers_changes_nothing_and_its_order_is_random() -> None:
    image = picture()
    nothing = "colour_jitter:brightness=0,contrast=0,saturation=0,hue=0"
    assert all((out == image).all() for out in changed(nothing, image, 5))

    class Recorded:
        """Draws the order from a real generator, and the largest of each amount."""

        def __init__(self, sample: int):
            self.permutation = sample_rng(0, 0, sample).permutation

        def uniform(self, low: float, high: float) -> float:
            return high

    outs = {
        augmentations.colour_jitter(image, Recorded(sample), 1.0, 1.0, 0.0, 0.0, p=1).tobytes()
        for sample in range(40)
    }
    brighter_first = colours.contrast(colours.brightness(image, 2), 2)
    contrast_first = colours.brightness(colours.contrast(image, 2), 2)
    assert outs == {brighter_first.tobytes(), contrast_first.tobytes()}


def test_lighting_moves_colours_as_those_of_imagenet_vary() -> None:
    """The covariance of the shifts is that of the pixels, times alpha squared."""
    image = np.full((1, 1, 3), 128, np.uint8)
    shifts = np.array([out[0, 0] for out in changed("lighting:alpha=0.5", image, 4000)]) - 128.0
    directions, spread = augmentations.IMAGENET_DIRECTIONS, augmentations.IMAGENET_SPREAD
    np.testing.assert_allclose(directions @ directions.T, np.eye(3), atol=1e-3)
    expected = directions @ np.diag((0.5 * spread) ** 2) @ directions.T
    np.testing.assert_allclose(np.cov(shifts.T), expected, rtol=0.08)
    np.testing.assert_allclose(shifts.mean(axis=0), 0, atol=1)


def test_erasing_keeps_to_its_share_its_shape_and_one_box() -> None:
    image = np.full((64, 64, 3), 128, np.uint8)
    areas, ratios, filled = [], [], []
    outs = changed("erase", image, 600)
    for out in outs:
        erased = (out != image).any(axis=2)
        if erased.any():
            rows, columns = np.flatnonzero(erased.any(axis=1)), np.flatnonzero(erased.any(axis=0))
            height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
            assert erased.sum() >= 0.98 * height * width, "a box, but for noise that met the picture's value"
            areas.append(height * width / 64**2)
            ratios.append(width / height)
            filled.append(out[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1].reshape(-1, 3))
    assert len(areas) / len(outs) == pytest.approx(0.5, abs=0.06)
    assert 0.015 < min(areas) < 0.03
    assert 0.3 < max(areas) < 0.35
    assert 0.25 < min(ratios) < 0.35
    assert 2.9 < max(ratios) < 3.8
    noise = np.concatenate(filled)
    np.testing.assert_allclose(noise.mean(axis=0), 127.5, atol=1)
    np.testing.assert_allclose(noise.std(axis=0), 256 / 12**0.5, atol=1)


# RandAugment


def test_randaugment_has_the_operations_of_the_paper_and_zero_is_none_of_them() -> None:
    assert len(augmentations.OPERATIONS) == 14
    image = picture()
    for name, operation in augmentations.OPERATIONS.items():
        neutral = operation.change(image, operation.neutral)
        if name not in ("autocontrast", "equalize"):  # these have no magnitude
            np.testing.assert_array_equal(neutral, image, err_msg=name)


@pytest.mark.parametrize("name", [name for name, made in augmentations.OPERATIONS.items() if made.strength])
def test_a_higher_magnitude_is_stronger(name: str) -> None:
    image, operation = picture(32), augmentations.OPERATIONS[name]
    for sign in (1, -1) if operation.is_signed else (1,):
        strengths = [
            np.abs(
                operation.change(image, operation.neutral + sign * operation.strength * m / 10) - 1.0 * image
            ).mean()
            for m in (1, 3, 5, 7, 10)
        ]
        if name == "posterize":  # whole bits: 8, 7, 6, 5, 4
            assert strengths[0] == 0
        assert strengths == sorted(strengths) and strengths[-1] > strengths[1], name


def test_randaugment_draws_all_operations_alike_and_in_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each operation is replaced by one that records its name: n names an image, evenly distributed, signs too."""
    notes: list[tuple[str, float]] = []

    def noting(name: str, operation: augmentations.Operation) -> augmentations.Operation:
        def note(image: Any, amount: float) -> Any:
            notes.append((name, amount))
            return image + np.uint8(1)

        return operation._replace(change=note)

    noted = {name: noting(name, operation) for name, operation in augmentations.OPERATIONS.items()}
    monkeypatch.setattr(augmentations, "OPERATIONS", noted)
    outs = changed("randaugment:n=3,m=5", np.zeros((2, 2, 3), np.uint8), 1400)
    assert all((out == 3).all() for out in outs)
    names = [name for name, _ in notes]
    counts = {name: names.count(name) for name in noted}
    assert sum(counts.values()) == 4200
    assert all(240 < count < 360 for count in counts.values()), counts
    degrees = [amount for name, amount in notes if name == "rotate"]
    assert set(degrees) == {-15.0, 15.0}
    assert np.mean(np.sign(degrees)) == pytest.approx(0, abs=0.2)
    assert {amount for name, amount in notes if name == "solarize"} == {128}
    assert {round(amount, 9) for name, amount in notes if name == "contrast"} == {0.55, 1.45}
