"""Nets by name, `--model`, and the numbers that each takes. Those of gluoncv take none.

Owns the tables, from which tasks say what they take. The code behind a name is in `models/`.
"""

from __future__ import annotations

from mxtrain.config.components import choices
from mxtrain.config.components.spec import Number, Table

_WIDTH, _DROPOUT, _NORM = (1, 1 << 20), Number(0.0, 0.0, 0.99), (0, 1)
_SOME_DROPOUT = Number(0.1, 0.0, 0.99)
# Nets of arrays; `norm=1` puts a layer norm behind each layer.
ARRAY_NETS: Table = {
    "mlp": {"hidden": Number((128, 64), *_WIDTH), "dropout": _DROPOUT, "norm": Number(0, *_NORM)},
    "conv1d": {
        "channels": Number((32, 64, 64), *_WIDTH),
        "kernel": Number(5, 1, 1 << 16),
        "dropout": _DROPOUT,
        "norm": Number(1, *_NORM),
    },
    "lstm": {
        "hidden": Number(64, *_WIDTH),
        "layers": Number(1, 1, 64),
        "dropout": _DROPOUT,
        "norm": Number(0, *_NORM),
    },
}


def _gpt(layers: int, heads: int, width: int) -> dict[str, Number]:
    return {
        "layers": Number(layers, 1, 1000),
        "heads": Number(heads, 1, 1000),
        "width": Number(width, 1, 1 << 17),
        "dropout": _DROPOUT,
    }


# Named by the numbers in their layers, 12 x layers x width^2; how many more there are depends on the vocabulary.
GPTS: Table = {
    "gpt": _gpt(6, 6, 384),
    "gpt_1m": _gpt(6, 4, 128),
    "gpt_5m": _gpt(6, 8, 256),
    "gpt_10m": _gpt(6, 6, 384),
    "gpt_25m": _gpt(8, 8, 512),
    "gpt_50m": _gpt(10, 10, 640),
    "gpt_85m": _gpt(12, 12, 768),
    "gpt_300m": _gpt(24, 16, 1024),
    "gpt_700m": _gpt(36, 20, 1280),
    "gpt_1500m": _gpt(48, 25, 1600),
}
# Nets of classes, of texts or of their tokens.
TEXT_NETS: Table = {
    "text_cnn": {"width": Number(128, *_WIDTH), "layers": Number(2, 1, 64), "dropout": _SOME_DROPOUT},
    "bilstm": {
        "width": Number(128, *_WIDTH),
        "hidden": Number(128, *_WIDTH),
        "layers": Number(1, 1, 64),
        "dropout": _SOME_DROPOUT,
    },
    "transformer": {**_gpt(4, 4, 256), "dropout": _SOME_DROPOUT},
}
NETS: Table = {**{name: {} for name in choices.MODELS}, **ARRAY_NETS, **GPTS, **TEXT_NETS}
