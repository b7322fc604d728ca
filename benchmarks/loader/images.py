"""Pictures like ImageNet's, made of noise, and the two .rec files that all contenders read.

500 x 375 pixels or upright, about 75 KB at quality 90. What decoding costs depends on how many coefficients are not
zero, so a picture has the spectrum of a photograph (amplitude falling a little faster than 1/f), sharp edges of
shapes, and colours that change slowly; some are smoother than others. The same pictures come out everywhere.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
import shutil
from pathlib import Path

import numpy as np

from mxtrain.core.opencv import cv2
from mxtrain.data.packing.pictures.images import ImageOptions, prepare
from mxtrain.data.packing.pictures.restart_intervals import choose_way
from mxtrain.data.records.record_writer import RecordWriter

WIDTH, HEIGHT = 500, 375
QUALITY = 90
NUM_CLASSES = 10
FOLDER = Path("runs/benchmarks/images")
PACKS = {
    "restart": "with restart intervals",
    "plain": "without restart intervals",
}  # the first is `pack`'s default
FILES = "files"


def make(folder: Path, num_images: int) -> dict[str, Path]:
    """Return a .rec for each of PACKS, made once of the same files, which hold the same coefficients."""
    folder = folder / f"{num_images}-images"
    packs = {name: folder / f"{name}.rec" for name in PACKS}
    if not all(pack.exists() for pack in packs.values()):
        shutil.rmtree(folder, ignore_errors=True)
        for label in range(NUM_CLASSES):
            (folder / FILES / f"class{label}").mkdir(parents=True)
        # Not forked, as this process may have threads and handlers of signals.
        with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
            pool.map(functools.partial(_write, folder / FILES), range(num_images), chunksize=16)
        for name, pack in packs.items():
            _pack(folder / FILES, pack, ImageOptions(restarts=choose_way(name == "restart", False)))
    return packs


def folder_of(pack: Path) -> Path:
    """Return the image folder that a pack was made of."""
    return pack.with_name(FILES)


def _pack(folder: Path, pack: Path, options: ImageOptions) -> None:
    with RecordWriter(pack) as writer:
        for path in sorted(folder.rglob("*.jpg"), key=lambda path: path.name):
            number = int(path.stem)
            writer.write(number, number % NUM_CLASSES, prepare(path.read_bytes(), options).payload)


def _write(folder: Path, number: int) -> None:
    """Write one picture, as an encoder does by default."""
    cv2.setNumThreads(0)
    name = Path(f"class{number % NUM_CLASSES}") / f"{number:05}.jpg"
    cv2.imwrite(str(folder / name), picture(number), [cv2.IMWRITE_JPEG_QUALITY, QUALITY])


def picture(number: int) -> np.ndarray:
    """Return uint8 BGR pixels; every fourth picture is upright."""
    rng = np.random.Generator(np.random.PCG64([20, number]))
    image = np.empty((HEIGHT, WIDTH, 3), np.float32)
    image[:] = 128 + rng.normal(0, 20, 3) + rng.uniform(15, 50) * _noise(rng)[:, :, None]
    image += cv2.resize(
        rng.normal(0, 12, (9, 12, 3)).astype(np.float32), (WIDTH, HEIGHT), interpolation=cv2.INTER_CUBIC
    )
    for _ in range(14):
        image += _shape(rng)[:, :, None] * rng.normal(0, 30, 3).astype(np.float32)
    image = np.clip(image, 0, 255).astype(np.uint8)
    return image if number % 4 else np.ascontiguousarray(image.transpose(1, 0, 2))


def _noise(rng: np.random.Generator) -> np.ndarray:
    amplitude = _amplitude()
    noise = np.fft.irfft2(amplitude * np.exp(2j * np.pi * rng.random(amplitude.shape)), (HEIGHT, WIDTH))
    return (noise / noise.std()).astype(np.float32)


@functools.lru_cache(maxsize=1)
def _amplitude() -> np.ndarray:
    frequency = np.hypot(np.fft.fftfreq(HEIGHT)[:, None], np.fft.rfftfreq(WIDTH))
    frequency[0, 0] = np.inf  # the mean is set apart
    return frequency**-1.2


def _shape(rng: np.random.Generator) -> np.ndarray:
    """Return a mask, 1 inside a random ellipse or quadrangle and 0 outside."""
    mask = np.zeros((HEIGHT, WIDTH), np.float32)
    centre = rng.integers(0, (WIDTH, HEIGHT))
    if rng.random() < 0.5:
        axes, angle = rng.integers(10, 150, 2), rng.uniform(0, 180)
        cv2.ellipse(mask, centre.tolist(), axes.tolist(), angle, 0, 360, 1.0, -1)
    else:
        cv2.fillPoly(mask, [(centre + rng.integers(-120, 120, (4, 2))).astype(np.int32)], 1.0)
    return mask
