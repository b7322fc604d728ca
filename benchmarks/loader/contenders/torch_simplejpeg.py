"""PyTorch's DataLoader with the fastest decoder and resizer that pip has: simplejpeg and OpenCV."""

from __future__ import annotations

import cv2
import numpy as np
import simplejpeg

from benchmarks.loader.contenders import torch_loader
from benchmarks.loader.contenders.reading import SIZE, random_box

cv2.setNumThreads(0)  # a worker is one process with one thread


def crop(payload: bytes, rng: np.random.Generator) -> np.ndarray:
    image = simplejpeg.decode_jpeg(payload, "RGB")
    left, top, wide, high = random_box(image.shape[1], image.shape[0], rng)
    image = cv2.resize(image[top : top + high, left : left + wide], (SIZE, SIZE))
    return cv2.flip(image, 1) if rng.random() < 0.5 else image


if __name__ == "__main__":
    torch_loader.run(crop)
