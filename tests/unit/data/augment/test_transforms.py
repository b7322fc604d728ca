import cv2
import numpy as np
import pytest

from mxtrain.config.components import augmentations
from mxtrain.core.errors import UsageError
from mxtrain.data.augment import transforms
from mxtrain.data.loading.order import sample_rng

AS_IT_IS = {"mean": (0.0, 0.0, 0.0), "std": (1 / 255, 1 / 255, 1 / 255)}  # normalises to 0..255


def picture(height, width):
    down, across = np.mgrid[0:height, 0:width]
    planes = [down * 255 / height, across * 255 / width, (down + across) * 255 / (height + width)]
    return np.stack(planes, -1).astype(np.uint8)


def png(rgb):
    return cv2.imencode(".png", rgb[:, :, ::-1])[1].tobytes()


def apply(transform, payload, rng=None):
    out = np.full((3, *transform.size), np.nan, np.float32)
    transform(payload, rng, out)
    return out


def as_image(out):
    return out.transpose(1, 2, 0).round().astype(int)


def test_every_name_has_its_function_and_the_function_takes_its_numbers():
    for name in augmentations.AUGMENTATIONS:
        for size in (1, 2, 16):
            out = apply(transforms.train_transform(name, size), png(picture(20, 30)), sample_rng(0, 0, 0))
            assert np.isfinite(out).all()


# What comes out


def test_normalisation_is_that_of_the_mean_and_std():
    image = picture(24, 24)
    out = apply(transforms.train_transform("none", 24), png(image))
    expected = (image / 255 - transforms.IMAGENET_MEAN) / transforms.IMAGENET_STD
    np.testing.assert_allclose(out, expected.transpose(2, 0, 1), atol=1e-5)


@pytest.mark.parametrize(
    ("height", "width"), [(24, 24), (24, 60), (60, 24), (8, 8), (300, 200), (1, 40), (1, 1)]
)
@pytest.mark.parametrize("spec", ["none", "resized_crop", "pad_crop", "pad_crop:pad=0", "resized_crop+flip"])
def test_pictures_of_any_size_fill_the_output(spec, height, width):
    transform = transforms.train_transform(spec, 24)
    for payload in (png(picture(height, width)), cv2.imencode(".jpg", picture(height, width))[1].tobytes()):
        for sample in range(5):
            assert np.isfinite(apply(transform, payload, sample_rng(0, 0, sample))).all()


ALL_CHANGES = "+".join(augmentations.CHANGES)


@pytest.mark.parametrize("spec", ["none", "resized_crop+flip", "pad_crop+flip", f"none+{ALL_CHANGES}"])
def test_everything_random_comes_from_the_generator_handed_in(spec):
    transform, payload = transforms.train_transform(spec, 32), png(picture(50, 70))
    np.random.seed(1)
    first = [apply(transform, payload, sample_rng(3, 1, sample)) for sample in range(4)]
    np.random.seed(2)
    second = [apply(transform, payload, sample_rng(3, 1, sample)) for sample in range(4)]
    np.testing.assert_array_equal(first, second)
    if spec != "none":
        assert len({out.tobytes() for out in first}) == 4


def test_a_resized_crop_keeps_to_its_share_of_the_area_and_its_shape():
    # On this ramp a crop's first and last values tell where it lay.
    transform = transforms.train_transform(
        "resized_crop:scale_min=0.2,scale_max=0.5,ratio_min=0.5,ratio_max=2", 64, **AS_IT_IS
    )
    payload, areas, ratios = png(picture(256, 256)), [], []
    for sample in range(200):
        out = apply(transform, payload, sample_rng(0, 0, sample))
        height, width = np.ptp(out[0, :, 0]) * 65 / 64, np.ptp(out[1, 0]) * 65 / 64
        areas.append(height * width / 255**2)
        ratios.append(width / height)
    assert 0.17 < min(areas) < 0.23
    assert 0.45 < max(areas) < 0.54
    assert 0.45 < min(ratios) < 0.65
    assert 1.6 < max(ratios) < 2.2


def test_a_resized_crop_without_freedom_is_the_whole_picture():
    transform = transforms.train_transform("resized_crop:scale_min=1,ratio_min=1,ratio_max=1", 30, **AS_IT_IS)
    np.testing.assert_array_equal(
        as_image(apply(transform, png(picture(30, 30)), sample_rng(0, 0, 0))), picture(30, 30)
    )


def test_a_pad_crop_cuts_from_the_picture_in_a_black_frame():
    image = picture(16, 16) // 2 + 64
    framed = np.pad(image, ((3, 3), (3, 3), (0, 0))).astype(int)
    windows = {framed[y : y + 16, x : x + 16].tobytes(): (y, x) for y in range(7) for x in range(7)}
    transform = transforms.train_transform("pad_crop:pad=3", 16, **AS_IT_IS)
    crops = [as_image(apply(transform, png(image), sample_rng(0, 0, sample))) for sample in range(600)]
    assert {windows[crop.tobytes()] for crop in crops} == set(windows.values())


@pytest.mark.parametrize("kind", [".png", ".jpg"])
@pytest.mark.parametrize("scale", [1, 5])
def test_evaluation_sees_the_centre_of_the_resized_picture(kind, scale):
    image = picture(64 * scale, 96 * scale)
    payload = cv2.imencode(kind, image[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 98])[1].tobytes()
    out = as_image(apply(transforms.eval_transform(56, 64, **AS_IT_IS), payload))
    expected = cv2.resize(image, (96, 64), interpolation=cv2.INTER_AREA)[4:60, 20:76]
    assert np.abs(out - expected).max() <= 5


def test_evaluation_of_a_small_picture_enlarges_it():
    out = as_image(apply(transforms.eval_transform(28, 32, **AS_IT_IS), png(picture(8, 8))))
    enlarged = cv2.resize(picture(8, 8), (32, 32), interpolation=cv2.INTER_LINEAR)
    np.testing.assert_array_equal(out, enlarged[2:30, 2:30])


def test_a_crop_larger_than_the_resized_picture_is_refused():
    with pytest.raises(UsageError, match="--val-resize 20 is below --image-size 32"):
        transforms.eval_transform(32, 20)


# Callables of the user's


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    (tmp_path / "own_changes.py").write_text(
        "def invert(image, rng):\n    return 255 - image\n\n"
        "def to_float(image, rng):\n    return image / 255\n\n"
        "def shrink(image, rng):\n    return image[1:]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("own_module")
def test_a_callable_takes_its_place_among_the_changes():
    transform = transforms.train_transform("none+flip:p=1+own_changes:invert", 16, **AS_IT_IS)
    out = as_image(apply(transform, png(picture(16, 16)), sample_rng(0, 0, 0)))
    np.testing.assert_array_equal(out, 255 - picture(16, 16)[:, ::-1])


@pytest.mark.usefixtures("own_module")
@pytest.mark.parametrize(("name", "made"), [("to_float", "float64"), ("shrink", r"\(15, 16, 3\)")])
def test_a_callable_that_makes_something_else_is_named(name, made):
    transform = transforms.train_transform(f"own_changes:{name}", 16)
    with pytest.raises(UsageError, match=f"{made}.*has to stay uint8"):
        apply(transform, png(picture(16, 16)), sample_rng(0, 0, 0))


@pytest.mark.usefixtures("own_module")
def test_a_callable_that_is_not_there_is_refused():
    with pytest.raises(UsageError, match="--augment own_changes:absent"):
        transforms.train_transform("own_changes:absent", 16)
