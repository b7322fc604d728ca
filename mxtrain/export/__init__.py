"""From a trained net to what others run: exports, proofs that they answer alike, drawings; as a function, `export`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mxtrain.core.late_names import late_names

__all__ = ["Export", "export"]

if TYPE_CHECKING:
    from mxtrain.export.__main__ import export
    from mxtrain.export.exporting import Export

__getattr__ = late_names(
    __name__, {"Export": "mxtrain.export.exporting", "export": "mxtrain.export.__main__"}
)
