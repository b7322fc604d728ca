"""Commands as a user types them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Callable

ROOT = Path(__file__).resolve().parents[2]
Command = Callable[..., "subprocess.CompletedProcess[str]"]
