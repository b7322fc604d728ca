"""The words of flags where a word is all: nothing is added to these without changing the code that reads them.

Names of components, which may have numbers, are in the files of their kinds beside this one.
"""

from __future__ import annotations

AMP = ("off", "auto", "bf16", "fp16")
AMP_DEVICES = {"bf16": "cpu", "fp16": "gpu"}  # where MXNet has kernels for these
LOSS_SCALES = ("auto", "dynamic")
SUMS = ("exact", "fast")
HOLD = (HOLD_ALL, HOLD_LAYERS) = ("all", "layers")
UPDATES = (ON_WORKERS, ON_SERVERS) = ("workers", "servers")
PRUNED = ("channel", "weight")
LOADERS = ("auto", "threads", "processes")
SAMPLINGS = ("once", "balanced")
TTA = ("flip", "crops", "scales", "windows")
TTA_OF_ANY = ("flip", "crops")  # whose answers have a mean
MASKS_AT = MASKS_AT_NET, MASKS_AT_ORIGINAL = ("net", "original")  # the size in which masks are judged
DROPPED = ("copies", "damaged")  # of pictures, by pack --drop
VERIFY = ("always", "first-epoch", "never")
NORMALIZE = ("auto", "host", "device")
CACHES = ("none", "ram", "disk")
LOG_LEVELS = ("debug", "info", "warning")
