"""The names that take hyper-parameters: of --model, --augment, --loss, --metric, --init, --optimizer, --schedule and
--compress.

Owns each table with defaults and limits, and a parser for each flag: `loss("focal:gamma=2")`. The language is
`spec.py`'s, the nets are `net_names.py`'s; the code behind a name is in `data/`, `models/`, `optim/` and `kvstore/`.
"""

from __future__ import annotations

from mxtrain.config import Optim, python_objects
from mxtrain.config.components import spec
from mxtrain.config.components.net_names import GPTS, NETS
from mxtrain.config.components.spec import Number, Spec, Table
from mxtrain.core.errors import UsageError

# A crop picks the part of the picture that the net sees. One comes first; where none is given it is `none`.
CROPS: Table = {
    "none": {},
    "resized_crop": {
        "scale_min": Number(0.08, 1e-4, 1.0),
        "scale_max": Number(1.0, 1e-4, 1.0),
        "ratio_min": Number(3 / 4, 0.01, 100.0),
        "ratio_max": Number(4 / 3, 0.01, 100.0),
    },
    "pad_crop": {"pad": Number(4, 0, 1024)},
}
# These change what was cropped, in the order given.
CHANGES: Table = {
    "flip": {"p": Number(0.5, 0.0, 1.0)},
    "vertical_flip": {"p": Number(0.5, 0.0, 1.0)},
    "rotate": {"degrees": Number(15.0, 0.0, 180.0)},
    "colour_jitter": {
        "brightness": Number(0.4, 0.0, 1.0),
        "contrast": Number(0.4, 0.0, 1.0),
        "saturation": Number(0.4, 0.0, 1.0),
        "hue": Number(0.0, 0.0, 0.5),
    },
    "grayscale": {"p": Number(0.1, 0.0, 1.0)},
    "lighting": {"alpha": Number(0.1, 0.0, 10.0)},
    "randaugment": {"n": Number(2, 1, 100), "m": Number(9, 0, 10)},
    "erase": {
        "p": Number(0.5, 0.0, 1.0),
        "scale_min": Number(0.02, 1e-4, 1.0),
        "scale_max": Number(1 / 3, 1e-4, 1.0),
        "ratio_min": Number(0.3, 0.01, 100.0),
        "ratio_max": Number(1 / 0.3, 0.01, 100.0),
    },
}
AUGMENTATIONS: Table = {**CROPS, **CHANGES}
OF_COLOURS = ("grayscale", "lighting")  # which do nothing sensible to grey pictures
# Of texts, in the order given; spans are masked last.
TEXT_CHANGES: Table = {
    "synonyms": {"file": Number("", 0, 0), "p": Number(0.1, 0.0, 1.0)},
    "drop_words": {"p": Number(0.1, 0.0, 0.9)},
    "mask_spans": {"p": Number(0.15, 0.0, 0.9), "mean": Number(3.0, 1.0, 1000.0)},
}

LOSSES: Table = {
    "cross_entropy": {},
    "binary_cross_entropy": {},
    # Below 1 the slope at a sample that is wholly right would be infinite.
    "focal": {"gamma": Number(2.0, 1.0, 10.0)},
    "l1": {},
    "l2": {},
    "huber": {"delta": Number(1.0, 1e-6, 1e6)},
    "auto": {},  # what the data says: cross_entropy or l2
}
LOSSES_OF_CLASSES = ("cross_entropy", "binary_cross_entropy", "focal")
AUTO_LOSS = "auto"  # of arrays: cross_entropy of classes, l2 of numbers
LOSSES_OF_NUMBERS = ("l1", "l2", "huber")
SMOOTHED_LOSSES = ("cross_entropy", "binary_cross_entropy")  # which take --label-smoothing

INITIALIZERS: Table = {
    "msra": {"slope": Number(0.0, 0.0, 1.0)},
    "msra_out": {"slope": Number(0.0, 0.0, 1.0)},
    "xavier": {"magnitude": Number(3.0, 1e-6, 100.0)},
    "xavier_normal": {"magnitude": Number(1.0, 1e-6, 100.0)},
    "normal": {"sigma": Number(0.01, 1e-9, 10.0)},
    "uniform": {"scale": Number(0.07, 1e-9, 10.0)},
    "orthogonal": {"scale": Number(1.0, 1e-6, 10.0)},
}


def _decay(default: float) -> Number:
    """The share of a running mean that stays at each update."""
    return Number(default, 0.0, 0.999999)


def _epsilon(default: float) -> Number:
    return Number(default, 1e-16, 1.0)


_ADAM = {"beta1": _decay(0.9), "beta2": _decay(0.999), "epsilon": _epsilon(1e-8)}
OPTIMIZERS: Table = {
    "sgd": {"momentum": _decay(0.9)},
    "nag": {"momentum": _decay(0.9)},
    "signum": {"momentum": _decay(0.9)},
    "adam": _ADAM,
    "adamw": _ADAM,
    "nadam": {**_ADAM, "momentum_decay": Number(0.004, 0.0, 1.0)},
    "adamax": _ADAM,
    "adadelta": {"rho": _decay(0.9), "epsilon": _epsilon(1e-5)},
    "adagrad": {"epsilon": _epsilon(1e-7)},
    "rmsprop": {
        "gamma1": _decay(0.9),
        "gamma2": _decay(0.9),
        "epsilon": _epsilon(1e-8),
        "centered": Number(0, 0, 1),
    },
    "ftml": {"beta1": _decay(0.6), "beta2": _decay(0.999), "epsilon": _epsilon(1e-8)},
    "ftrl": {"lamda1": Number(0.01, 0.0, 1e6), "beta": Number(1.0, 1e-6, 1e6)},
    "lamb": {
        **_ADAM,
        "epsilon": _epsilon(1e-6),
        "lower_bound": Number(0.0, 0.0, 1e6),
        "upper_bound": Number(0.0, 0.0, 1e6),
        "bias_correction": Number(1, 0, 1),
    },
    "lars": {"momentum": _decay(0.9), "eta": Number(0.001, 1e-9, 1e3), "epsilon": Number(0.0, 0.0, 1.0)},
}
# The number that --momentum sets. FTML's beta1 is not here: its authors' is 0.6, and nothing like a momentum.
MOMENTUM = {
    **dict.fromkeys(("sgd", "nag", "signum", "lars"), "momentum"),
    **dict.fromkeys(("adam", "adamw", "nadam", "adamax", "lamb"), "beta1"),
    "rmsprop": "gamma2",
}
LEFT_OUT_OPTIMIZERS = {
    "ccsgd": "it is sgd's old name; give sgd",
    "dcasgd": "it makes up for the delays of asynchronous updates, and here there are none; give sgd",
    "groupadagrad": "it takes only matrices, and no weight decay; give adagrad",
    "lbsgd": "it counts batches of its own, past resume; give lars and --warmup-epochs",
    "sgld": "it draws its noise for each device, so that replicas drift apart; give sgd",
}

_FLOOR, _FACTOR, _EPOCHS = Number(0.0, 0.0, 1.0), Number(0.1, 1e-6, 1.0), (0.001, 1e6)
SCHEDULES: Table = {
    "constant": {},
    "cosine": {"cycles": Number(1, 1, 10000), "decay": Number(1.0, 0.0, 1.0), "floor": _FLOOR},
    "linear": {"floor": _FLOOR},
    "poly": {"power": Number(2.0, 0.01, 100.0), "floor": _FLOOR},
    "sigmoid": {"steepness": Number(10.0, 0.01, 100.0), "middle": Number(0.5, 0.0, 1.0), "floor": _FLOOR},
    "one_cycle": {
        "rise": Number(0.3, 0.001, 0.999),
        "start": Number(0.04, 0.0, 1.0),
        "floor": Number(4e-6, 0.0, 1.0),
    },
    "step": {"every": Number(30.0, *_EPOCHS), "factor": _FACTOR},
    "multistep": {"at": Number((), *_EPOCHS), "factor": _FACTOR},
    "exp": {"factor": Number(0.95, 1e-6, 1.0)},
    "inv": {"gamma": Number(1.0, 0.0, 1e6), "power": Number(0.5, 0.0, 100.0)},
}
EPOCH_SCHEDULES = ("constant", "step", "multistep", "exp", "inv")  # which do not depend on the run's length

COMPRESSIONS: Table = {"none": {}, "2bit": {"threshold": Number(0.5, 1e-9, 1e9)}}


# Of evaluations; which fit a task is `tasks/metrics/metric_functions.py`'s to say.
METRICS: Table = {
    "accuracy": {},
    "topk": {"k": Number(5, 1, 1 << 22)},
    "balanced_accuracy": {},
    "macro_f1": {},
    "precision": {},
    "recall": {},
    "auc": {},
    "average_precision": {},
    "mae": {},
    "rmse": {},
    "r2": {},
    "perplexity": {},
}


def metrics(text: str) -> list[Spec]:
    """Parse --metric: names joined by commas."""
    if not text:
        return []
    if not all(python_objects.split_names(text)):
        raise UsageError(f"--metric {text}: a name is missing; give names joined by commas")
    return [spec.parse("--metric", part, METRICS) for part in python_objects.split_names(text)]


def augmentations(text: str) -> list[Spec]:
    """Parse --augment: names joined by `+`. The crop comes first, then the changes in their order."""
    if not all(part.strip() for part in text.split("+")):
        raise UsageError(f"--augment {text}: a name is missing; give names joined by +, or none")
    found = [spec.parse("--augment", part.strip(), AUGMENTATIONS) for part in text.split("+")]
    if found[0].name not in CROPS:
        found.insert(0, Spec("none", {}))
    for augmentation in found[1:]:
        if augmentation.name in CROPS:
            raise UsageError(
                f"--augment {text}: {augmentation.name} has to come first; at most one of {', '.join(CROPS)}"
            )
    return found


def text_augmentations(text: str) -> list[Spec]:
    """Parse --augment of texts: names joined by `+`, or none."""
    if text == "none":
        return []
    found = [spec.parse("--augment", part.strip(), TEXT_CHANGES) for part in text.split("+")]
    for each in found:
        if each.name not in TEXT_CHANGES:
            raise UsageError(f"--augment {text}: texts take names alone ({', '.join(TEXT_CHANGES)})")
    return found


def model(text: str) -> Spec:
    """Parse --model."""
    found = spec.parse("--model", text, NETS)
    if found.name in GPTS and found.hyperparameters["width"] % found.hyperparameters["heads"]:
        width, heads = found.hyperparameters["width"], found.hyperparameters["heads"]
        raise UsageError(f"--model {text}: its width {width} is no multiple of its {heads} heads")
    return found


def loss(text: str) -> Spec:
    """Parse --loss."""
    return spec.parse("--loss", text, LOSSES)


def initializer(text: str) -> Spec:
    """Parse --init."""
    return spec.parse("--init", text, INITIALIZERS)


def optimizer(optim: Optim) -> Spec:
    """Parse --optimizer together with --momentum, which sets a number unless the description has it."""
    text = optim.optimizer
    name = text.partition(":")[0]
    if name in LEFT_OUT_OPTIMIZERS:
        raise UsageError(f"--optimizer {text}: left out, because {LEFT_OUT_OPTIMIZERS[name]}")
    name, hyperparameters = parsed = spec.parse("--optimizer", text, OPTIMIZERS)
    if name not in OPTIMIZERS:
        return parsed
    explicit = spec.keys_of(text)
    key, differs = MOMENTUM.get(name), optim.momentum != Optim.momentum
    if name == "rmsprop" and not hyperparameters["centered"]:
        if "gamma2" in explicit:
            raise UsageError(f"--optimizer {text}: gamma2 is the centered one's; add centered=1")
        key = None
    if key is None and differs:
        raise UsageError(f"--momentum {optim.momentum:g}: --optimizer {text} has none; leave --momentum out")
    if key in explicit and differs and optim.momentum != hyperparameters[key]:
        raise UsageError(
            f"--momentum {optim.momentum:g}: --optimizer {text} says {hyperparameters[key]:g}; leave one of them out"
        )
    return Spec(
        name, hyperparameters if key is None or key in explicit else {**hyperparameters, key: optim.momentum}
    )


def schedule(optim: Optim) -> Spec:
    """Parse --schedule."""
    found = spec.parse("--schedule", optim.schedule, SCHEDULES)
    at = found.hyperparameters.get("at")
    if at is not None and (not at or sorted(set(at)) != list(at)):
        raise UsageError(
            f"--schedule {optim.schedule}: give the epochs where it falls, one after the other, as in "
            "multistep:at=30/60/80"
        )
    return found


def compression_threshold(text: str) -> float:
    """Parse --compress, to the threshold of `2bit`; 0 where nothing is compressed."""
    return float(spec.parse("--compress", text, COMPRESSIONS).hyperparameters.get("threshold", 0.0))
