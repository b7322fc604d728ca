"""Values from a fresh process, and folders of small files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


def ask(expression: str, *options: str, **environment: str) -> Any:
    """Return the value of an expression about gpus, machine or wheels of mxtrain.core, in a fresh process."""
    code = f"import json, os; from mxtrain.core.system import gpus, machine, wheels; print(json.dumps({expression}))"
    done = subprocess.run(
        [sys.executable, *options, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def write(root: Path, files: dict[str, str]) -> Path:
    """Write files with these names and texts below `root`, and return it."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root
