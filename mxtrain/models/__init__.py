"""Nets and their layers. Importing the package does not load mxnet; importing `SparseEmbedding` from it does."""

from __future__ import annotations

from mxtrain.core.late_names import late_names

__getattr__ = late_names(__name__, {"SparseEmbedding": "mxtrain.models.nets.sparse"})
