"""Nets and their layers. Importing the package does not load mxnet; importing a layer from it does."""

from __future__ import annotations

from mxtrain.core.late_names import late_names

__getattr__ = late_names(
    __name__, {"SparseEmbedding": "mxtrain.models.nets.sparse", "Table": "mxtrain.models.nets.table"}
)
