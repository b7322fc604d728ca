"""Write scikit-learn's bundled handwritten digits as an image folder: `python examples/digits.py OUT_FOLDER`.

1,797 real scans of 8x8 pixels, enlarged smoothly to 32x32 grey PNG files, a folder per class. The folders bear the
digits' English names, so sorted by name they get other labels than their digits: class names matter. No download,
and the same bytes each time.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mxtrain.core.errors import UsageError, one_line

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SIDE = 32


def write_digits(out: Path) -> int:
    """Write all images as PNG files below `out`, and return their number."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise UsageError("the digits come with scikit-learn: pip install 'mxtrain[dev]'") from None
    from mxtrain.core.opencv import cv2

    digits = load_digits()
    for name in NAMES:
        (out / name).mkdir(parents=True, exist_ok=True)
    for number, (pixels, digit) in enumerate(zip(digits.images, digits.target)):
        grey = cv2.resize(pixels * (255 / 16), (SIDE, SIDE), interpolation=cv2.INTER_CUBIC)
        _, png = cv2.imencode(".png", grey.clip(0, 255).round().astype("uint8"))
        (out / NAMES[digit] / f"{number:04d}.png").write_bytes(png.tobytes())
    return len(digits.images)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Write handwritten digits as an image folder, a folder per class."
    )
    parser.add_argument("out", metavar="OUT_FOLDER", type=Path)
    out = parser.parse_args().out
    try:
        num_images = write_digits(out)
    except OSError as error:
        raise UsageError(f"cannot write {error.filename or out}: {error.strerror}") from None
    print(f"wrote {num_images} images to {out}, a folder per class")


if __name__ == "__main__":
    sys.exit(one_line("digits", main))
