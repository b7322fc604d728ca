import cv2
import numpy as np
import pytest
import simplejpeg
from hypothesis import given
from hypothesis import strategies as st

from mxtrain import native
from mxtrain.data.decode import jpeg, restart
from mxtrain.data.decode.jpeg import BadPicture, Box

SAMPLINGS = {
    "444": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444,
    "422": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_422,
    "440": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_440,
    "420": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_420,
    "411": cv2.IMWRITE_JPEG_SAMPLING_FACTOR_411,
}


@pytest.fixture(scope="module", autouse=True, params=["with the part in C", "without it"])
def decoder(request):
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "without it":
            patch.setattr(native, "crop", None)
        yield


def picture(height, width, channels=3, seed=0):
    """Coarse and fine structure and noise in every channel, so that each neighbour matters to chroma."""
    random = np.random.default_rng(seed)
    coarse = cv2.resize(random.normal(128, 60, (5, 7, channels)), (width, height)).reshape(height, width, -1)
    return np.clip(coarse + random.normal(0, 25, coarse.shape), 0, 255).astype(np.uint8)


def packed(pixels, interval, sampling="420", quality=85, **more):
    settings = {cv2.IMWRITE_JPEG_QUALITY: quality, cv2.IMWRITE_JPEG_RST_INTERVAL: interval, **more}
    if pixels.shape[-1] == 3:
        settings[cv2.IMWRITE_JPEG_SAMPLING_FACTOR] = SAMPLINGS[sampling]
    flat = [int(number) for pair in settings.items() for number in pair]
    return cv2.imencode(".jpg", pixels, flat)[1].tobytes()


def crop_of_the_whole(payload, box, scale):
    """Return the box at 1/`scale`, cut from all pixels."""
    height, width, _, _ = simplejpeg.decode_jpeg_header(payload)
    least = {"min_height": -(-height // scale), "min_width": -(-width // scale), "min_factor": scale}
    bottom, right = box.top + box.height, box.left + box.width
    whole = simplejpeg.decode_jpeg(payload, "RGB", **least)
    return whole[box.top // scale : -(-bottom // scale), box.left // scale : -(-right // scale)]


@st.composite
def cases(draw):
    """Draw a picture, its coding, and a box in it, with intervals that divide the units of a row and others."""
    sampling = draw(st.sampled_from(["gray", *SAMPLINGS]))
    height, width = draw(st.integers(1, 140)), draw(st.integers(1, 200))
    unit_width = {"gray": 8, "444": 8, "440": 8, "411": 32}.get(sampling, 16)
    units = -(-width // unit_width)
    interval = draw(st.sampled_from([n for n in range(1, units + 1) if units % n == 0]) | st.integers(1, 6))
    top, left = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
    box = Box(top, left, draw(st.integers(1, height - top)), draw(st.integers(1, width - left)))
    pixels = picture(height, width, 1 if sampling == "gray" else 3, seed=draw(st.integers(0, 9)))
    return packed(pixels, interval, sampling), box


@given(cases(), st.sampled_from([8, 11, 1000]))
def test_a_crop_has_the_pixels_of_the_whole_whatever_the_size_sampling_interval_and_scale(case, target):
    payload, box = case
    crop = jpeg.decode_crop(payload, lambda height, width: box, target)
    scale = max(scale for scale in (1, 2, 4, 8) if scale == 1 or min(box.height, box.width) >= scale * target)
    np.testing.assert_array_equal(crop, crop_of_the_whole(payload, box, scale))


@pytest.mark.parametrize("left", range(40, 52))
def test_the_last_few_columns_are_smoothed_as_in_the_whole(left):
    payload, box = packed(picture(10, 52), 1, "422"), Box(8, left, 1, 52 - left)
    crop = jpeg.decode_crop(payload, lambda height, width: box, 1000)
    np.testing.assert_array_equal(crop, crop_of_the_whole(payload, box, 1))


@pytest.mark.parametrize("sampling", ["gray", *SAMPLINGS])
def test_only_the_part_around_the_box_is_left(sampling):
    payload = packed(picture(240, 320, 1 if sampling == "gray" else 3), 2, sampling)
    header = restart.parse_header(payload)
    part = restart.cut(payload, header, 100, 150, 40, 40, 1)
    assert (header.height, header.width, header.interval) == (240, 320, 2)
    assert len(part.payload) < len(payload) / 2
    assert (part.top, part.left) <= (100, 150)
    assert simplejpeg.decode_jpeg(bytes(part.payload)).shape == (part.height, part.width, 3)


def test_a_memoryview_is_cut_like_bytes():
    payload = packed(picture(90, 130), 3)
    header = restart.parse_header(payload)
    assert restart.cut(memoryview(payload), header, 9, 20, 40, 40, 1) == restart.cut(
        payload, header, 9, 20, 40, 40, 1
    )


@pytest.mark.parametrize(
    "payload",
    [
        packed(picture(64, 96), 0),
        packed(picture(64, 96), 4),  # 6 units a row
        packed(picture(64, 96), 3).replace(b"\xff\xc0", b"\xff\xc9", 1),
        cv2.imencode(
            ".jpg", picture(64, 96), [cv2.IMWRITE_JPEG_PROGRESSIVE, 1, cv2.IMWRITE_JPEG_RST_INTERVAL, 3]
        )[1].tobytes(),
        b"",
        b"\xff\xd8",
        packed(picture(64, 96), 3)[:200],
    ],
    ids=[
        "no interval",
        "an interval across rows",
        "arithmetic",
        "progressive",
        "empty",
        "two bytes",
        "a stump",
    ],
)
def test_what_cannot_be_cut_says_so(payload):
    assert restart.parse_header(payload) is None


def test_markers_out_of_step_or_missing_are_left_to_the_decoder():
    payload = packed(picture(64, 96), 3)
    header = restart.parse_header(payload)
    second = payload.index(b"\xff\xd1", header.scan_at)
    for damaged in (
        payload[:second] + b"\xff\xd5" + payload[second + 2 :],
        payload[:second] + payload[second + 2 :],
        payload[:-2],
        payload[: len(payload) // 2],
    ):
        assert restart.cut(damaged, header, 0, 0, 8, 8, 1) is None
    with pytest.raises(BadPicture):
        jpeg.decode_crop(payload[: len(payload) // 2], lambda height, width: Box(0, 0, 8, 8), 8)


def test_a_cut_header_that_announces_too_many_pixels_is_refused():
    payload = bytearray(packed(picture(64, 96), 3))
    frame = payload.index(b"\xff\xc0")
    payload[frame + 5 : frame + 9] = b"\x9c\x40\x9c\x60"  # 40000 x 40032, whose row of units 3 divides
    assert restart.parse_header(bytes(payload)) is not None
    with pytest.raises(BadPicture, match="40032 x 40000"):
        jpeg.decode_crop(bytes(payload), lambda height, width: Box(0, 0, 8, 8), 8)
