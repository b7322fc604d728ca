"""Nets by name: `--model`. To add one is an entry here, and a function that makes a Gluon block.

Owns their numbers, and what each takes, from which tasks say what they take. GluonCV's, and torch's that are made of
them, take no numbers; their names are `gluoncv_names.py`'s and `torch_net_names.py`'s, their code is
`mxtrain/models/nets/zoo.py`'s.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from mxtrain.config.components import component
from mxtrain.config.components.component import Component, Number, Numbers, Spec, by_name
from mxtrain.config.components.zoo.detector_names import DETECTORS, TWO_STAGE
from mxtrain.config.components.zoo.gluoncv_names import GLUONCV_CLASSIFIERS
from mxtrain.config.components.zoo.segmenter_names import NOT_HERE, SEGMENTERS
from mxtrain.config.components.zoo.torch_net_names import TORCH_NETS
from mxtrain.core.errors import UsageError

if TYPE_CHECKING:
    from mxtrain.runtime.types import Block

PICTURES, ARRAYS, IDS, TOKENS, TEXTS = "pictures", "arrays", "ids", "tokens", "texts"
BOXES, PIXELS = "boxes", "pixels"  # pictures too, of whose boxes, or of each of whose pixels, they tell


@dataclasses.dataclass(frozen=True)
class Net(Component):
    """A net, not initialised when its factory has made it. What the factory is called with depends on what it `takes`.

    Of pictures `num_classes`, of arrays and ids `inputs` (the shape of each by its name) and `outputs`, of tokens
    `vocabulary`, `length` and `end_token`, of texts `vocabulary`, `num_classes`, `length` and `of_tokens` (whether each
    token has a class); and with its numbers.
    """

    takes: str = PICTURES
    divides_width_into_heads: bool = False
    needs_fixed_shapes: bool = False  # takes no arrays that vary in length
    needs_one_length: bool = False  # of all series of a sample
    odd_number: str = ""  # which would shift the steps if it was even


_WIDTH, _DROPOUT, _NORM = (1, 1 << 20), Number(0.0, 0.0, 0.99), (0, 1)
_SOME_DROPOUT = Number(0.1, 0.0, 0.99)
_NETS = "mxtrain.models.nets."
# Of the table that ids are looked up in: `tables/options.py`. A row has `width` numbers, and a weight for each output.
_ROWS = {
    "width": Number(16, 1, 4000),
    "scale": Number(0.01, 0.0, 1e3),
    "optimizer": Number("adagrad_row", 0, 0),
    "rate_factor": Number(
        10.0, 0.0, 1e6
    ),  # adagrad's steps shrink, those of adam, beside which it often is, do not
    "decay": Number(0.0, 0.0, 1e3),
    "admit_after": Number(1, 1, 1 << 30),
    "expire_after": Number(0, 0, 1 << 30),
    "max_rows": Number(0, 0, 1 << 39),
}


def _transformer(layers: int, heads: int, width: int) -> dict[str, Number]:
    return {
        "layers": Number(layers, 1, 1000),
        "heads": Number(heads, 1, 1000),
        "width": Number(width, 1, 1 << 17),
        "dropout": _DROPOUT,
    }


def _gpt(name: str, layers: int, heads: int, width: int) -> Net:
    numbers = _transformer(layers, heads, width)
    help = f"a decoder of {layers} layers, {heads} heads and a width of {width}"
    return Net(name, help, _NETS + "gpt:Gpt", numbers, takes=TOKENS, divides_width_into_heads=True)


def _of_arrays(name: str, help: str, numbers: Numbers, **needs: Any) -> Net:
    return Net(name, help, _NETS + f"array_nets:{name}", numbers, takes=ARRAYS, **needs)


def _of_ids(name: str, help: str, numbers: Numbers) -> Net:
    return Net(name, help, _NETS + f"recommender_nets:{name}", {**_ROWS, **numbers}, takes=IDS)


def _of_texts(name: str, help: str, numbers: Numbers, has_heads: bool = False) -> Net:
    return Net(
        name, help, _NETS + f"text_nets:{name}", numbers, takes=TEXTS, divides_width_into_heads=has_heads
    )


NETS = by_name(
    Net("small_cnn", "a few convolutions, for the first minutes", _NETS + "small:small_cnn"),
    Net("small_resnet", "a ResNet of small pictures", _NETS + "small:small_resnet"),
    *(Net(name, "GluonCV's") for name in GLUONCV_CLASSIFIERS),
    *(Net(name, "torch's, made of GluonCV's") for name in TORCH_NETS),
    *(Net(name, "GluonCV's", takes=BOXES) for name in DETECTORS),
    *(Net(name, "GluonCV's", takes=PIXELS) for name in SEGMENTERS),
    _of_arrays(
        "mlp",
        "the default: layers of neurons over all arrays side by side; fixed shapes",
        # norm=1 puts a layer norm behind each layer
        {"hidden": Number((128, 64), *_WIDTH), "dropout": _DROPOUT, "norm": Number(0, *_NORM)},
        needs_fixed_shapes=True,
    ),
    _of_arrays(
        "conv1d",
        "convolutions over steps, each layer seeing twice as far as the one before, and their mean and maximum",
        {
            "channels": Number((32, 64, 64), *_WIDTH),
            "kernel": Number(5, 1, 1 << 16),
            "dropout": _DROPOUT,
            "norm": Number(1, *_NORM),
        },
        odd_number="kernel",
    ),
    _of_arrays(
        "lstm",
        "LSTM layers over steps, and what they know after the last one",
        {
            "hidden": Number(64, *_WIDTH),
            "layers": Number(1, 1, 64),
            "dropout": _DROPOUT,
            "norm": Number(0, *_NORM),
        },
        # MXNet 1.9.1 writes beyond its memory on CPUs, where an LSTM computes another length between the forward and
        # the backward pass of an LSTM.
        needs_one_length=True,
    ),
    _of_ids(
        "wide_deep",
        "a sum of weights, beside layers of neurons over all vectors and numbers",
        {"hidden": Number((256, 128), *_WIDTH), "dropout": _DROPOUT},
    ),
    _of_ids(
        "deepfm",
        "the default: `wide_deep` with the products of all pairs of fields beside it",
        {"hidden": Number((256, 128), *_WIDTH), "dropout": _DROPOUT},
    ),
    _of_ids(
        "dlrm",
        "layers over the products of all pairs of fields, one of which layers make of the numbers",
        {
            "bottom": Number((128, 64), *_WIDTH),
            "hidden": Number((256, 128), *_WIDTH),
            "dropout": _DROPOUT,
            "scale": Number(0.05, 0.0, 1e3),  # of whose products it learns, and nothing else
        },
    ),
    # Named by the numbers in their layers, 12 x layers x width^2; how many more there are depends on the vocabulary.
    _gpt("gpt", 6, 6, 384),
    _gpt("gpt_1m", 6, 4, 128),
    _gpt("gpt_5m", 6, 8, 256),
    _gpt("gpt_10m", 6, 6, 384),
    _gpt("gpt_25m", 8, 8, 512),
    _gpt("gpt_50m", 10, 10, 640),
    _gpt("gpt_85m", 12, 12, 768),
    _gpt("gpt_300m", 24, 16, 1024),
    _gpt("gpt_700m", 36, 20, 1280),
    _gpt("gpt_1500m", 48, 25, 1600),
    _of_texts(
        "text_cnn",
        "convolutions over the tokens",
        {"width": Number(128, *_WIDTH), "layers": Number(2, 1, 64), "dropout": _SOME_DROPOUT},
    ),
    _of_texts(
        "bilstm",
        "an LSTM in both directions",
        {
            "width": Number(128, *_WIDTH),
            "hidden": Number(128, *_WIDTH),
            "layers": Number(1, 1, 64),
            "dropout": _SOME_DROPOUT,
        },
    ),
    _of_texts(
        "transformer",
        "an encoder, which attends both ways",
        {**_transformer(4, 4, 256), "dropout": _SOME_DROPOUT},
        has_heads=True,
    ),
)


def that_take(what: str) -> tuple[str, ...]:
    """Return the names of the nets that take pictures, boxes, arrays, ids, tokens or texts."""
    return tuple(net.name for net in NETS.values() if net.takes == what)


def build(text: str, **sizes: Any) -> Block:
    """Return the net that `text` describes, a known one, of these sizes; not initialised."""
    name, hyperparameters = parse(text)
    net: Block = NETS[name].load()(**sizes, **hyperparameters)
    return net


def takes(text: str) -> str:
    """Return what the net of this name, or described so, takes; nothing is known of one of the user's own."""
    name = text.partition(":")[0]
    return NETS[name].takes if name in NETS else ""


def parse(text: str) -> Spec:
    """Parse --model."""
    if text.startswith(TWO_STAGE):
        raise UsageError(
            f"--model {text}: is a net of two stages, which are not learnt here; give one of one stage, as "
            "ssd_512_resnet50_v1_voc, yolo3_darknet53_voc or center_net_resnet18_v1b_voc"
        )
    if text.startswith(NOT_HERE):
        raise UsageError(
            f"--model {text}: is not among the nets of pixels that are learnt here; give one of {', '.join(SEGMENTERS)}"
        )
    parsed = component.parse("--model", text, NETS)
    if parsed.name not in NETS:
        return parsed
    net, numbers = NETS[parsed.name], parsed.hyperparameters
    if net.divides_width_into_heads and numbers["width"] % numbers["heads"]:
        raise UsageError(
            f"--model {text}: its width {numbers['width']} is no multiple of its {numbers['heads']} heads"
        )
    if net.odd_number and numbers[net.odd_number] % 2 == 0:
        raise UsageError(
            f"--model {text}: {net.odd_number} is even, and would shift the steps; give an odd one"
        )
    return parsed
