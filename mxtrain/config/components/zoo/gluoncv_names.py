"""The classifiers of GluonCV that can be trained, and where its model zoo has them; a test compares them with it."""

from __future__ import annotations

# The names of each module in gluoncv/model_zoo.
BY_MODULE = {
    "alexnet": "alexnet",
    "cifarresnet": (
        "cifar_resnet110_v1 cifar_resnet110_v2 cifar_resnet20_v1 cifar_resnet20_v2 "
        "cifar_resnet56_v1 cifar_resnet56_v2"
    ),
    "cifarresnext": "cifar_resnext29_16x64d cifar_resnext29_32x4d",
    "cifarwideresnet": "cifar_wideresnet16_10 cifar_wideresnet28_10 cifar_wideresnet40_8",
    "densenet": "densenet121 densenet161 densenet169 densenet201",
    "dla": "dla34",
    "googlenet": "googlenet",
    "hrnet": (
        "hrnet_w18_c hrnet_w18_small_v1_c hrnet_w18_small_v2_c hrnet_w30_c hrnet_w32_c hrnet_w40_c "
        "hrnet_w44_c hrnet_w48_c hrnet_w64_c"
    ),
    "inception": "inceptionv3",
    "mobilenet": (
        "mobilenet0.25 mobilenet0.5 mobilenet0.75 mobilenet1.0 mobilenetv2_0.25 mobilenetv2_0.5 "
        "mobilenetv2_0.75 mobilenetv2_1.0"
    ),
    "mobilenetv3": "mobilenetv3_large mobilenetv3_small",
    "nasnet": "nasnet_4_1056 nasnet_5_1538 nasnet_6_4032 nasnet_7_1920",
    "pruned_resnet.resnetv1b_pruned": (
        "resnet101_v1d_0.73 resnet101_v1d_0.76 resnet18_v1b_0.89 resnet50_v1d_0.11 "
        "resnet50_v1d_0.37 resnet50_v1d_0.48 resnet50_v1d_0.86"
    ),
    "residual_attentionnet": (
        "cifar_residualattentionnet452 cifar_residualattentionnet56 cifar_residualattentionnet92 "
        "residualattentionnet128 residualattentionnet164 residualattentionnet200 "
        "residualattentionnet236 residualattentionnet452 residualattentionnet56 "
        "residualattentionnet92"
    ),
    "resnest": "resnest101 resnest14 resnest200 resnest26 resnest269 resnest50",
    "resnet": (
        "resnet101_v1 resnet101_v2 resnet152_v1 resnet152_v2 resnet18_v1 resnet18_v2 resnet34_v1 "
        "resnet34_v2 resnet50_v1 resnet50_v2 se_resnet101_v1 se_resnet101_v2 se_resnet152_v1 "
        "se_resnet152_v2 se_resnet18_v1 se_resnet18_v2 se_resnet34_v1 se_resnet34_v2 se_resnet50_v1 "
        "se_resnet50_v2"
    ),
    "resnetv1b": (
        "resnet101_v1b resnet101_v1b_gn resnet101_v1c resnet101_v1d resnet101_v1e resnet101_v1s "
        "resnet152_v1b resnet152_v1c resnet152_v1d resnet152_v1e resnet152_v1s resnet18_v1b "
        "resnet34_v1b resnet50_v1b resnet50_v1b_gn resnet50_v1c resnet50_v1d resnet50_v1e "
        "resnet50_v1s"
    ),
    "resnext": (
        "resnext101_32x4d resnext101_64x4d resnext101e_64x4d resnext50_32x4d se_resnext101_32x4d "
        "se_resnext101_64x4d se_resnext101e_64x4d se_resnext50_32x4d"
    ),
    "senet": "senet_154 senet_154e",
    "shufflenet": "shufflenet_v1 shufflenet_v2",
    "squeezenet": "squeezenet1.0 squeezenet1.1",
    "vgg": "vgg11 vgg11_bn vgg13 vgg13_bn vgg16 vgg16_bn vgg19 vgg19_bn",
    "xception": "xception xception71",
    "yolo.darknet": "darknet53",
}
MODULE_OF = {name: module for module, names in BY_MODULE.items() for name in names.split()}
GLUONCV_CLASSIFIERS = tuple(sorted(MODULE_OF))

# Their shapes come from files that were made for 1000 classes.
PRUNED = tuple(BY_MODULE["pruned_resnet.resnetv1b_pruned"].split())

_FUNCTIONS = {
    "inceptionv3": "inception_v3",
    "xception": "get_xcetption",
    "xception71": "get_xcetption_71",
}


def function_of(name: str) -> tuple[str, str]:
    """Return the module of gluoncv and the function in it that make the net called `name`."""
    number = "_" if name in PRUNED else "_0."
    function = name.replace("_0.", number).replace("mobilenetv", "mobilenet_v").replace(".", "_")
    return f"gluoncv.model_zoo.{MODULE_OF[name]}", _FUNCTIONS.get(name, function)
