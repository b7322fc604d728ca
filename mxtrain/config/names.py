"""Every name that a flag knows, and how `module:callable` stands in for one.

Owns the lists that are checked before mxnet loads; a test compares them with what MXNet and GluonCV really hold.
The code behind a name lives with its kind.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any, Iterable

from mxtrain.core.errors import UsageError, in_code_of, nearest

STORES = ("local", "device")
DIST_STORES = (
    "dist_sync",
    "dist_async",
    "dist_device_sync",
    "dist_sync_device",
    "dist_async_device",
)
AMP = ("off", "bf16", "fp16")
AMP_DEVICES = {"bf16": "cpu", "fp16": "gpu"}  # where MXNet has kernels for these
LOSS_SCALES = ("auto", "dynamic")
TASKS = ("classification",)
LOADERS = ("auto", "threads", "processes")
SAMPLINGS = ("once", "balanced")
VERIFY = ("always", "first-epoch", "never")
NORMALIZE = ("auto", "host", "device")
CACHES = ("none", "ram", "disk")
SINKS = ("console", "tensorboard", "none")
# How the numbers come from the run folder to where people look for a sink of that name.
WITHOUT_SINK = {
    "csv": "pandas.read_json('{}', lines=True).to_csv('metrics.csv') makes a table of it",
    "wandb": "in Python, wandb.log(json.loads(line)) for each line of it brings them there",
}
LOG_LEVELS = ("debug", "info", "warning")

SMALL_NETS = ("small_cnn", "small_resnet")

GLUONCV_CLASSIFIERS = (
    "alexnet",
    "cifar_residualattentionnet452",
    "cifar_residualattentionnet56",
    "cifar_residualattentionnet92",
    "cifar_resnet110_v1",
    "cifar_resnet110_v2",
    "cifar_resnet20_v1",
    "cifar_resnet20_v2",
    "cifar_resnet56_v1",
    "cifar_resnet56_v2",
    "cifar_resnext29_16x64d",
    "cifar_resnext29_32x4d",
    "cifar_wideresnet16_10",
    "cifar_wideresnet28_10",
    "cifar_wideresnet40_8",
    "darknet53",
    "densenet121",
    "densenet161",
    "densenet169",
    "densenet201",
    "dla34",
    "googlenet",
    "hrnet_w18_c",
    "hrnet_w18_small_v1_c",
    "hrnet_w18_small_v2_c",
    "hrnet_w30_c",
    "hrnet_w32_c",
    "hrnet_w40_c",
    "hrnet_w44_c",
    "hrnet_w48_c",
    "hrnet_w64_c",
    "inceptionv3",
    "mobilenet0.25",
    "mobilenet0.5",
    "mobilenet0.75",
    "mobilenet1.0",
    "mobilenetv2_0.25",
    "mobilenetv2_0.5",
    "mobilenetv2_0.75",
    "mobilenetv2_1.0",
    "mobilenetv3_large",
    "mobilenetv3_small",
    "nasnet_4_1056",
    "nasnet_5_1538",
    "nasnet_6_4032",
    "nasnet_7_1920",
    "residualattentionnet128",
    "residualattentionnet164",
    "residualattentionnet200",
    "residualattentionnet236",
    "residualattentionnet452",
    "residualattentionnet56",
    "residualattentionnet92",
    "resnest101",
    "resnest14",
    "resnest200",
    "resnest26",
    "resnest269",
    "resnest50",
    "resnet101_v1",
    "resnet101_v1b",
    "resnet101_v1b_gn",
    "resnet101_v1c",
    "resnet101_v1d",
    "resnet101_v1d_0.73",
    "resnet101_v1d_0.76",
    "resnet101_v1e",
    "resnet101_v1s",
    "resnet101_v2",
    "resnet152_v1",
    "resnet152_v1b",
    "resnet152_v1c",
    "resnet152_v1d",
    "resnet152_v1e",
    "resnet152_v1s",
    "resnet152_v2",
    "resnet18_v1",
    "resnet18_v1b",
    "resnet18_v1b_0.89",
    "resnet18_v2",
    "resnet34_v1",
    "resnet34_v1b",
    "resnet34_v2",
    "resnet50_v1",
    "resnet50_v1b",
    "resnet50_v1b_gn",
    "resnet50_v1c",
    "resnet50_v1d",
    "resnet50_v1d_0.11",
    "resnet50_v1d_0.37",
    "resnet50_v1d_0.48",
    "resnet50_v1d_0.86",
    "resnet50_v1e",
    "resnet50_v1s",
    "resnet50_v2",
    "resnext101_32x4d",
    "resnext101_64x4d",
    "resnext101e_64x4d",
    "resnext50_32x4d",
    "se_resnet101_v1",
    "se_resnet101_v2",
    "se_resnet152_v1",
    "se_resnet152_v2",
    "se_resnet18_v1",
    "se_resnet18_v2",
    "se_resnet34_v1",
    "se_resnet34_v2",
    "se_resnet50_v1",
    "se_resnet50_v2",
    "se_resnext101_32x4d",
    "se_resnext101_64x4d",
    "se_resnext101e_64x4d",
    "se_resnext50_32x4d",
    "senet_154",
    "senet_154e",
    "shufflenet_v1",
    "shufflenet_v2",
    "squeezenet1.0",
    "squeezenet1.1",
    "vgg11",
    "vgg11_bn",
    "vgg13",
    "vgg13_bn",
    "vgg16",
    "vgg16_bn",
    "vgg19",
    "vgg19_bn",
    "xception",
    "xception71",
)

PRUNED = tuple(name for name in GLUONCV_CLASSIFIERS if re.search(r"_v1[bd]_0\.\d+$", name))

MODELS = SMALL_NETS + GLUONCV_CLASSIFIERS


def is_async(kvstore: str) -> bool:
    """Return whether workers with this store (`dist_async`) update the weights without waiting for each other."""
    return "async" in kvstore


def check_name(flag: str, name: str, known: Iterable[str]) -> None:
    """Refuse a name that is neither known nor the path of an importable module's callable."""
    known = list(known)
    if name in known:
        return
    if ":" not in name:
        choices = f" ({', '.join(known)})" if len(known) < 16 else ""
        raise UsageError(f"{flag} {name}: unknown name{nearest(name, known)}{choices}")
    module = name.split(":")[0]
    try:
        found = importlib.util.find_spec(module.split(".")[0])
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise UsageError(
            f"{flag} {name}: no module '{module}' on the Python path ({Path.cwd()} and PYTHONPATH)"
        )


def is_path(text: str) -> bool:
    """Whether this is `module:callable`, and not a file of that name."""
    return ":" in text and not Path(text).exists()


def look_here() -> None:
    """Have modules looked for in this folder too, however Python was started."""
    if not any(Path(entry or ".").resolve() == Path.cwd() for entry in sys.path):
        sys.path.insert(0, str(Path.cwd()))


def load_path(flag: str, path: str) -> Any:
    """The object that `package.module:callable` names."""
    module_name, _, attribute = path.partition(":")
    look_here()
    try:
        with in_code_of(f"{flag} {path}"):
            found = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"{flag} {path}: {error}") from None
    if not callable(found):
        raise UsageError(f"{flag} {path}: {attribute} is not callable")
    return found
