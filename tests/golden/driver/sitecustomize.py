"""SIGKILL for a run with its record of a step, in every version of mxtrain: each writes records by `json.dumps`.

In effect where a folder with this file is on PYTHONPATH and the variables below are set. The newest checkpoint is
waited for, so that the folder that is left is the same each time.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

STEP, CHECKPOINT, OUT = (os.environ.get(f"GOLDEN_{name}") for name in ("KILL_AT", "CHECKPOINT", "OUT"))
DEADLINE_SECONDS = 60
dumps = json.dumps


def _dumps_or_die(value, *args, **kwargs):
    if _is_last_record(value) and any(OUT in word for word in sys.argv):
        _wait_for_checkpoint()
        if os.environ.get("GOLDEN_PARENT"):  # a search ends with its trial
            os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)
    return dumps(value, *args, **kwargs)


def _is_last_record(value):
    return isinstance(value, dict) and value.get("kind") == "train" and value.get("step") == int(STEP)


def _wait_for_checkpoint():
    folder = Path(OUT, "checkpoints")
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        if (folder / f"step-{int(CHECKPOINT):08d}").is_dir() and not any(folder.glob(".*")):
            time.sleep(0.3)  # older ones are deleted after it is there
            if not any(folder.glob(".*")):
                return
        time.sleep(0.02)


if STEP:
    json.dumps = _dumps_or_die
