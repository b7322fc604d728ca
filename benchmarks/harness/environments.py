"""Environments of contenders that must not share ours: their packages, making and finding them."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Iterable

PINNED = {
    "torch": [
        "torch==2.13.0",
        "numpy==2.4.6",
        "pillow==13.0.0",
        "simplejpeg==1.9.0",
        "opencv-python-headless==5.0.0.93",
    ],
    # PyTorch on mxtrain's own batches: what the loader needs, as mxtrain has it.
    "learn": [
        "torch==2.13.0",
        "numpy==1.26.4",
        "simplejpeg==1.9.0",
        "opencv-python-headless==4.11.0.86",
    ],
    # Nets to convert. torchvision 0.28 is for torch 2.13.
    "converting": [
        "torch==2.13.0",
        "torchvision==0.28.0",
        "timm==1.0.31",
        "safetensors==0.8.0",
        "numpy==2.4.6",
    ],
    "tensorflow": ["tensorflow-cpu==2.21.0", "numpy==2.4.6"],
    # Shards in an object store. What is pinned beside it, pip would find only after a long search.
    "streaming": [
        "mosaicml-streaming==0.13.0",
        "torch==2.13.0",
        "torchvision==0.28.0",
        "transformers==4.57.6",
        "numpy==2.1.3",
        "boto3==1.44.8",
        "oci==2.189.0",
    ],
    "dali": ["nvidia-dali-cuda120==2.4.0", "numpy==2.4.6"],
}
FOLDER = Path("runs/benchmarks/environments")
OURS = "ours"  # the environment that the benchmark runs in
DEADLINE_SECONDS = 1800


def set_up(folder: Path, names: Iterable[str]) -> None:
    """Make the environments that are missing or incomplete."""
    for name in names:
        if interpreter(folder, name) is None:
            _run(sys.executable, "-m", "venv", "--clear", folder / name)
            _run(_python(folder, name), "-m", "pip", "install", "--quiet", *PINNED[name])
            _ready(folder, name).touch()


def interpreter(folder: Path, name: str) -> Path | None:
    """Return the environment's Python, or None if it is not installed."""
    if name == OURS:
        return Path(sys.executable) if find_spec("mxnet") else None
    return _python(folder, name) if _ready(folder, name).exists() else None


def pytorch(folder: Path, name: str, benchmark: str) -> Path:
    """Return the interpreter of an environment with PyTorch; ends the benchmark where it is not installed."""
    found = interpreter(folder, name)
    if found is None:
        raise SystemExit(f"no PyTorch in {folder}: python -m benchmarks.{benchmark} --setup")
    return found


def _python(folder: Path, name: str) -> Path:
    return folder / name / "bin" / "python"


def _ready(folder: Path, name: str) -> Path:
    return folder / name / "ready"


def _run(*line: object) -> None:
    subprocess.run([str(part) for part in line], check=True, timeout=DEADLINE_SECONDS)
