"""The host proxy: a real process in between, its input and its signals."""

from __future__ import annotations

import json
import signal
import subprocess
import sys


def host_proxy(*command: str) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "mxtrain.launch", "host-proxy", *command]
    return subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_a_host_gets_its_plan_and_then_signals_and_its_exit_code_comes_back() -> None:
    with host_proxy("sh", "-c", "read plan; echo $plan; read name; echo $name; exit 75") as proxy:
        assert proxy.stdin and proxy.stdout
        proxy.stdin.write(json.dumps({"a": 1}))
        proxy.stdin.close()
        assert json.loads(proxy.stdout.readline()) == {"a": 1}
        proxy.send_signal(signal.SIGUSR1)
        assert proxy.stdout.readline() == "SIGUSR1\n"
        assert proxy.wait(20) == 75


def test_the_input_of_a_host_ends_when_its_proxy_is_killed() -> None:
    with host_proxy("sh", "-c", "read plan; echo there; cat; echo alone") as proxy:
        assert proxy.stdin and proxy.stdout
        proxy.stdin.close()
        assert proxy.stdout.readline() == "there\n"
        proxy.kill()
        assert proxy.stdout.readline() == "alone\n"
