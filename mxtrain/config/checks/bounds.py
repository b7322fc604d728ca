"""The range of each number of a run.

Owns the limits that a number has by itself; limits that depend on another flag, the data or this machine are
`run_checks.py`'s. Most upper limits are far beyond use: a slip of the finger is refused with a message, where later it
would be a process too many, an overflow or an endless wait. MXNet's numbers are float32, so the limits keep products
within its range too: of rates with schedules and optimizers, and of clipping with loss scales and batch sizes.
"""

from __future__ import annotations

from mxtrain import config
from mxtrain.config import Run, batch_plan
from mxtrain.config.flags.arguments import LARGEST_SEED
from mxtrain.config.values import sizes
from mxtrain.core.errors import UsageError

WEEK_MINUTES = 7 * 24 * 60
WEEK_SECONDS = 60 * WEEK_MINUTES
MOST_PROCESSES = 1024
MOST_SAMPLES = 1 << 20
MOST_CLASSES = 1 << 22
MOST_STEPS = 10**9
MOST_TIMES = 10**6
MOST_LIST_LENGTH = 1 << 16
LARGEST_ARRAY = 2**31 - 1  # of elements, in MXNet
SMALLEST = 1e-30
FAR, NEAR = 1e6, 1e-6
LOSS_SCALE = (NEAR, 1e12)
BELOW_ONE = float("inf")  # 1 itself is refused by `run_checks.py`

RANGES: dict[str, tuple[float, float]] = {
    "image_size": (1, 4096),
    "channels": (1, 3),
    "val_resize": (0, 16384),
    "mixup": (0, FAR),
    "cutmix": (0, FAR),
    "prefetch_mb": (1, 1 << 20),
    "storage_cache_mb": (64, 1 << 30),
    "storage_patience": (1, WEEK_SECONDS),
    "list_length": (1, MOST_LIST_LENGTH),
    "skip_bad": (0, MOST_STEPS),
    "num_classes": (0, MOST_CLASSES),
    "head_chunk": (0, MOST_CLASSES),
    "head_classes": (0, MOST_CLASSES),
    "window": (1, 1 << 20),
    "num_workers": (1, MOST_PROCESSES),
    "num_servers": (1, MOST_PROCESSES),
    "stages": (1, batch_plan.MAX_DEVICES),
    "min_workers": (0, MOST_PROCESSES),
    "start_timeout": (1, WEEK_SECONDS),
    "silence_timeout": (1, WEEK_SECONDS),
    "stall_timeout": (1, WEEK_SECONDS),
    "max_restarts": (0, MOST_TIMES),
    "threads": (0, 1024),
    "batch_size": (1, MOST_SAMPLES),
    "micro_batch": (0, MOST_SAMPLES),
    "accumulate": (0, MOST_SAMPLES),
    "lr": (SMALLEST, 1e12),
    "momentum": (0, BELOW_ONE),
    "weight_decay": (0, FAR),
    "layer_decay": (0.01, 1),
    "lr_base_batch": (0, MOST_SAMPLES),
    "warmup_epochs": (0, MOST_TIMES),
    "distill_weight": (0, 1),
    "aux_weight": (0, FAR),
    "distill_temperature": (0.001, FAR),
    "label_smoothing": (0, BELOW_ONE),
    "clip_norm": (NEAR, FAR),
    "clip_value": (NEAR, FAR),
    "ema": (0, BELOW_ONE),
    "prune": (0, BELOW_ONE),
    "average": (0, MOST_TIMES),
    "max_bad_steps": (1, MOST_STEPS),
    "overfit": (0, MOST_TIMES),
    "early_stop": (0, MOST_TIMES),
    "epochs": (1, MOST_TIMES),
    "epoch_steps": (0, MOST_STEPS),
    "max_steps": (0, MOST_STEPS),
    "seed": (0, LARGEST_SEED),
    "checkpoint_steps": (0, MOST_STEPS),
    "evaluate_steps": (0, MOST_STEPS),
    "sample_steps": (0, MOST_STEPS),
    "checkpoint_minutes": (0, WEEK_MINUTES),
    "keep_last": (1, MOST_TIMES),
    "keep_best": (0, MOST_TIMES),
}
ZERO_IS_NONE = ("clip_norm", "clip_value")


def check(run: Run) -> None:
    """Raise UsageError for the first number out of its range."""
    values = config.to_flat(run)
    for name, limits in RANGES.items():
        flag = f"--{name.replace('_', '-')} {values[name]}"
        if name in ZERO_IS_NONE and values[name] == 0:
            continue
        or_none = ", or 0 for none" if name in ZERO_IS_NONE else ""
        for value in sizes.height_and_width(values[name]) if name == "image_size" else (values[name],):
            _check_one(flag, value, limits, or_none)


def _check_one(flag: str, value: float, limits: tuple[float, float], or_none: str) -> None:
    least, most = limits
    if not value >= least:  # as NaN is not
        raise UsageError(f"{flag}: give {least} or more{or_none}")
    if value > most:
        raise UsageError(f"{flag}: give {most} or less")
    if 0 < value < SMALLEST:
        raise UsageError(f"{flag}: give {SMALLEST} or more, or 0")
