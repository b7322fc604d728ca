"""Signals before and after a command's end; tests/e2e/test_pack_command.py sends them to one at work."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

WAITING = """
import sys, threading
from mxtrain.errors import one_line
from tools.im2rec_wrapper import interrupts

def command():
    threading.Thread(target=threading.Event().wait).start()  # the interpreter waits for it, and would forever
    if "at work" in sys.argv:
        print("ready", flush=True)
        threading.Event().wait()

with interrupts.heeded("it"):
    code = one_line("it", command)
print("ready", flush=True)
sys.exit(code)
"""


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("when", ["at work", "at its end"])
def test_threads_that_never_end_keep_nobody_waiting(
    when: str, number: signal.Signals, exit_code: int
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING, when], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    said = f"it: left at once, on {number.name}\n"
    try:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        if when == "at work":
            said = f"it: stopped by {number.name}\n" + said
            assert process.stdout.readline() == "ready\n"
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.2)
            process.send_signal(number)
        _, errors = process.communicate(timeout=10)
    finally:
        process.kill()
    assert (process.returncode, errors) == (exit_code, said)
