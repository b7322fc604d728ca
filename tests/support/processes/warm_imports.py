"""All that a command imports before it does anything, for `warm_start.py`: importing this module loads it."""

from __future__ import annotations

from mxtrain import runtime

runtime.load()

from mxtrain.checkpoint import resume, run_folder  # noqa: E402, F401
from mxtrain.data.loading import loader  # noqa: E402, F401
from mxtrain.export import exporting  # noqa: E402, F401
from mxtrain.models.nets import zoo  # noqa: E402, F401
from mxtrain.report import diagnosis  # noqa: E402, F401
from mxtrain.train.net import dry_run  # noqa: E402, F401
