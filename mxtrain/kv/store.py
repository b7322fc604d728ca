"""The trainer over a store: gradients here become gradients everywhere.

Owns how `gluon.Trainer` meets the KVStore. Gradients are summed by the store and every worker applies the same
update, so clipping, loss scaling and short batches need nothing special.
"""

from __future__ import annotations

from typing import Any, Sequence

from mxtrain.runtime import mx


def open_trainer(parameters: Sequence[Any], optimizer: Any, kvstore: str) -> Any:
    """A gluon Trainer whose store is up and whose contexts hold equal weights.

    The stock Trainer does both inside its first step, after the first forward has used weights that the store
    then replaces.
    """
    trainer = mx.gluon.Trainer(list(parameters), optimizer, kvstore=kvstore, update_on_kvstore=False)
    trainer._init_kvstore()
    trainer._init_params()
    mx.nd.waitall()
    return trainer
