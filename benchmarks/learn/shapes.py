"""Pictures that need features to classify: a shape filled with a texture, at random places in random colours.

A class is a pair of shape and texture. Colours, place, size, angle, the scale of the texture, the background and two
ellipses that lie about are drawn anew for each picture: neither colours nor single pixels give a class away. The same
pictures come out everywhere.
"""

from __future__ import annotations

import functools
import os
import shutil
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.harness import commands
from mxtrain.core.opencv import cv2

SIDE = 256  # for crops of 224
QUALITY = 90
SHAPES = ("disc", "triangle", "star")
TEXTURES = ("stripes", "checks", "dots")
CLASSES = tuple(f"{shape}-{texture}" for shape in SHAPES for texture in TEXTURES)
CORNERS = {"triangle": 3, "star": 10}

Array = npt.NDArray[Any]
Rng = np.random.Generator


def make(folder: Path, num_train: int, num_val: int) -> tuple[Path, Path]:
    """Return a .rec to train on and one held out; they are made once."""
    folder = folder / f"shapes-{num_train}-{num_val}"
    packs = folder / "train.rec", folder / "val.rec"
    if not all(pack.with_suffix(".idx").exists() for pack in packs):
        shutil.rmtree(folder, ignore_errors=True)
        for pack, numbers in zip(packs, (range(num_train), range(num_train, num_train + num_val))):
            images = pack.with_suffix("")
            for name in CLASSES:
                (images / name).mkdir(parents=True)
            with Pool(os.cpu_count()) as pool:
                pool.map(functools.partial(_write, images), numbers, chunksize=16)
            commands.pack(images, pack)
    return packs


def _write(folder: Path, number: int) -> None:
    cv2.setNumThreads(0)
    path = folder / CLASSES[number % len(CLASSES)] / f"{number:05}.jpg"
    cv2.imwrite(str(path), picture(number), [cv2.IMWRITE_JPEG_QUALITY, QUALITY])


def picture(number: int) -> Array:
    """Return uint8 BGR pixels of a picture of class `number % len(CLASSES)`."""
    rng = np.random.Generator(np.random.PCG64([21, number]))
    shape, texture = CLASSES[number % len(CLASSES)].split("-")
    image = _background(rng)
    for _ in range(2):
        _put(image, _ellipse(rng), _colour(rng))
    _put(image, _shape(shape, rng), _filling(texture, rng))
    image += rng.normal(0, 6, image.shape).astype(np.float32)
    return image.clip(0, 255).astype(np.uint8)


def _put(image: Array, mask: Array, filling: Array) -> None:
    image += mask[:, :, None] * (filling - image)


def _colour(rng: Rng) -> Array:
    return rng.uniform(0, 255, 3).astype(np.float32)


def _background(rng: Rng) -> Array:
    """Return colours that change slowly."""
    coarse = rng.uniform(0, 255, (4, 4, 3)).astype(np.float32)
    return cv2.resize(coarse, (SIDE, SIDE), interpolation=cv2.INTER_LINEAR)


def _filling(texture: str, rng: Rng) -> Array:
    """Return a pattern of two clearly different colours at a random scale and angle."""
    one = _colour(rng)
    apart = rng.uniform(80, 127, 3)
    other = one + np.where(one < 128, apart, -apart)
    return one + _pattern(texture, rng)[:, :, None] * (other - one)


def _pattern(texture: str, rng: Rng) -> Array:
    angle, period = rng.uniform(0, np.pi), rng.uniform(10, 22)
    y, x = np.mgrid[:SIDE, :SIDE].astype(np.float32) * np.float32(2 * np.pi / period) + rng.uniform(0, 6)
    along, across = np.cos(angle) * x + np.sin(angle) * y, np.cos(angle) * y - np.sin(angle) * x
    if texture == "stripes":
        value = np.sin(along)
    elif texture == "checks":
        value = np.sin(along / 1.4) * np.sin(across / 1.4) * 2
    else:
        value = np.cos(along) + np.cos(across) - 0.9
    return (0.5 + 2 * value).clip(0, 1)  # soft edges


def _shape(shape: str, rng: Rng) -> Array:
    """Return a mask, 1 inside the shape and 0 outside, entirely within the picture."""
    radius, turn = rng.uniform(0.24, 0.36) * SIDE, rng.uniform(0, 2 * np.pi)
    centre = rng.uniform(radius, SIDE - radius, 2)
    mask = np.zeros((SIDE, SIDE), np.float32)
    if shape == "disc":
        cv2.circle(mask, centre.astype(int).tolist(), int(radius * 0.85), 1.0, -1, cv2.LINE_AA)
        return mask
    angles = turn + 2 * np.pi * np.arange(CORNERS[shape]) / CORNERS[shape]
    radii = np.where(np.arange(CORNERS[shape]) % 2, radius * 0.45, radius) if shape == "star" else radius
    corners = centre + (radii * np.array([np.cos(angles), np.sin(angles)])).T
    cv2.fillPoly(mask, [corners.round().astype(np.int32)], 1.0, cv2.LINE_AA)
    return mask


def _ellipse(rng: Rng) -> Array:
    """Return a mask of a long ellipse."""
    mask = np.zeros((SIDE, SIDE), np.float32)
    centre, angle = rng.integers(40, SIDE - 40, 2).tolist(), rng.uniform(0, 180)
    cv2.ellipse(mask, centre, (int(rng.integers(60, 90)), int(rng.integers(16, 30))), angle, 0, 360, 1.0, -1)
    return mask
