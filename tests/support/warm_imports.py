"""All that a command imports before it does anything, for `warm_start.py`: importing this module loads it."""

from __future__ import annotations

from mxtrain import runtime

runtime.load()

from mxtrain.checkpoint import resume, run_folder  # noqa: E402, F401
from mxtrain.data import cache, labels, loader  # noqa: E402, F401
from mxtrain.deploy import exporting  # noqa: E402, F401
from mxtrain.models import zoo  # noqa: E402, F401
from mxtrain.report import diagnosis  # noqa: E402, F401
from mxtrain.train import answers, asked, dry_run, loop, open_data, session, told, trained_run  # noqa: E402, F401
