"""torchvision's RandomResizedCrop and flip with PIL: PyTorch's usual way. There is no torchvision here to import."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from benchmarks.loader.contenders import torch_loader
from benchmarks.loader.contenders.reading import SIZE, random_box


def crop(payload: bytes, rng: np.random.Generator) -> np.ndarray:
    image = Image.open(io.BytesIO(payload)).convert("RGB")
    left, top, wide, high = random_box(*image.size, rng)
    image = image.crop((left, top, left + wide, top + high)).resize((SIZE, SIZE), Image.Resampling.BILINEAR)
    if rng.random() < 0.5:
        image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return np.array(image)


if __name__ == "__main__":
    torch_loader.run(crop)
