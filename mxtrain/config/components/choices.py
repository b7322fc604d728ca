"""The choices of flags where a name is all: no hyper-parameters, and no `module:callable` instead but for --model.

Names that take hyper-parameters are in `registry.py`.
"""

from __future__ import annotations

from mxtrain.config.components.gluoncv_names import GLUONCV_CLASSIFIERS
from mxtrain.config.components.torch_net_names import TORCH_NETS

STORES = ("local", "device")
DIST_STORES = (
    "dist_sync",
    "dist_async",
    "dist_device_sync",
    "dist_sync_device",
    "dist_async_device",
)
AMP = ("off", "auto", "bf16", "fp16")
AMP_DEVICES = {"bf16": "cpu", "fp16": "gpu"}  # where MXNet has kernels for these
LOSS_SCALES = ("auto", "dynamic")
SUMS = ("exact", "fast")
PRUNED = ("channel", "weight")
TEXT_CLASSIFICATIONS = ("sequence_classification", "token_classification")
TASKS = ("classification", "multilabel", "regression", "arrays", "lm", *TEXT_CLASSIFICATIONS)
# What --model, --loss and --augment are where they are left out; a task that is not named here has classification's, or
# ImageNet's augmentation.
DEFAULT_MODELS = {
    "classification": "resnet18_v1b",
    "arrays": "mlp",
    "lm": "gpt_10m",
    **dict.fromkeys(TEXT_CLASSIFICATIONS, "bilstm"),
}
DEFAULT_LOSSES = {
    "classification": "cross_entropy",
    "multilabel": "binary_cross_entropy",
    "regression": "l2",
    "arrays": "auto",
}
AUTO_AUGMENTATION = "auto"  # what suits the training set, as `data/augment/augment_choice.py` finds
IMAGENET_AUGMENTATION = "resized_crop+flip"
DEFAULT_AUGMENTATIONS = {
    "classification": AUTO_AUGMENTATION,
    "multilabel": AUTO_AUGMENTATION,
    "regression": "none",
    "lm": "none",
    **dict.fromkeys(TEXT_CLASSIFICATIONS, "none"),
}
LOADERS = ("auto", "threads", "processes")
SAMPLINGS = ("once", "balanced")
TTA = ("flip", "crops")
VERIFY = ("always", "first-epoch", "never")
NORMALIZE = ("auto", "host", "device")
CACHES = ("none", "ram", "disk")
SINKS = ("console", "tensorboard", "wandb", "csv", "none")
LOG_LEVELS = ("debug", "info", "warning")

SMALL_NETS = ("small_cnn", "small_resnet")
MODELS = SMALL_NETS + GLUONCV_CLASSIFIERS + TORCH_NETS


def is_async(kvstore: str) -> bool:
    """Return whether workers with this store (`dist_async`) update the weights without waiting for each other."""
    return "async" in kvstore
