"""A job over several hosts: host files, which role goes where, and what each host is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mxtrain import config
from mxtrain.core.errors import UsageError
from mxtrain.launch import hosts, ssh
from mxtrain.launch.hosts import Host, HostPlan, HostsJob
from mxtrain.launch.plan import JobSpec, ProcessSpec

FLAGS = ("--train", "t.rec", "--kvstore", "dist_sync", "--num-workers", "3", "--num-servers", "2")
TOKEN = "d6f1a0"
ROOT = Path(__file__).resolve().parents[3]


def job(tmp_path: Path, **more: object) -> HostsJob:
    given = {
        "run": config.parse([*FLAGS, "--out", str(tmp_path)]),
        "flags": FLAGS,
        "token": TOKEN,
        "port": 9091,
        "root": lambda used: "10.0.0.1",
        "command": lambda host: ["ssh", host.target],
    }
    return HostsJob(**{**given, **more})  # type: ignore[arg-type]


def plans(processes: list[ProcessSpec]) -> list[HostPlan]:
    return [hosts.from_json(process.stdin) for process in processes]


def test_a_host_file() -> None:
    text = "# the cluster\u2028of old\nnode1 slots=2\n\n  me@node2   # its neighbour\n10.0.0.3\n"
    found = hosts.parse_host_file(text, "hosts")
    assert found == [Host("node1", 2), Host("me@node2", 1), Host("10.0.0.3", 1)]
    assert [host.name for host in found] == ["node1", "node2", "10.0.0.3"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no hosts"),
        ("# nothing\n", "no hosts"),
        ("a\na slots=2", "line 2: names a again"),
        ("a\nme@a", "line 2: names a again"),
        ("a slots=0", "line 1: expected"),
        ("a 2", "line 1: expected"),
        ("a slots=2 b", "line 1: expected"),
        ("-oProxyCommand=evil", "line 1: expected"),
    ],
)
def test_a_host_file_that_cannot_be_meant(text: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        hosts.parse_host_file(text, "hosts")


def test_a_missing_host_file_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--hosts .*nowhere: No such file"):
        ssh.launch(["--hosts", str(tmp_path / "nowhere")], FLAGS)
    (tmp_path / "picture").write_bytes(b"\xff\xd8")
    with pytest.raises(UsageError, match=r"--hosts .*picture: it is no UTF-8"):
        ssh.launch(["--hosts", str(tmp_path / "picture")], FLAGS)


def test_a_variable_has_a_name_and_a_value(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("a slots=3\n")
    with pytest.raises(UsageError, match="'HOME' sets nothing; give NAME=VALUE"):
        ssh.launch(["--hosts", str(tmp_path / "hosts"), "--env", "HOME"], FLAGS)


def test_roles_are_placed() -> None:
    a, b, c = Host("a", 2), Host("b"), Host("c")
    assert hosts.place_roles([a, b, c], 3, 2) == {
        a: ["scheduler", "server-0", "worker-0", "worker-1"],
        b: ["server-1", "worker-2"],
    }


@pytest.mark.parametrize("num_hosts", [1, 2, 5])
@pytest.mark.parametrize("num_workers", [1, 3, 5])
@pytest.mark.parametrize("num_servers", [1, 4])
def test_each_role_runs_once(num_hosts: int, num_workers: int, num_servers: int) -> None:
    known = [Host(f"h{number}", 5) for number in range(num_hosts)]
    roles = [role for names in hosts.place_roles(known, num_workers, num_servers).values() for role in names]
    servers, workers = (
        [f"{kind}-{n}" for n in range(count)]
        for kind, count in (("server", num_servers), ("worker", num_workers))
    )
    assert sorted(roles) == sorted(["scheduler", *servers, *workers])


def test_more_workers_than_slots_are_refused(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("a\nb\n")
    with pytest.raises(UsageError, match="--num-workers 3 on hosts with 2 slots"):
        ssh.launch(["--hosts", str(tmp_path / "hosts")], FLAGS)


def test_addresses() -> None:
    local, other = Host("localhost"), Host("10.0.0.2")
    assert hosts.scheduler_address([local]) == "127.0.0.1"
    assert hosts.scheduler_address([other, local]) == "10.0.0.2"
    assert hosts.scheduler_address([local, other], "10.0.0.1") == "10.0.0.1"
    with pytest.raises(UsageError, match=r"localhost is 127\.0\.0\.1 here.*--root"):
        hosts.scheduler_address([local, other])
    with pytest.raises(UsageError, match=r"no\.such\.host\.invalid: no IPv4 address.*--root"):
        hosts.scheduler_address([Host("no.such.host.invalid"), other])


def test_each_life_has_its_own_port_and_generation(tmp_path: Path) -> None:
    known = [Host("a", 2), Host("b")]
    for generation, port in ((0, 9091), (3, 9094), (8, 9091), (21, 9096)):  # never one that is not its own
        for plan in plans(hosts.proxy_processes(job(tmp_path), known, generation)):
            assert plan.spec == JobSpec("10.0.0.1", port, 3, 2)
            assert (plan.attempt, plan.token, tuple(plan.flags)) == (generation, TOKEN, FLAGS)


def test_fewer_hosts_have_as_many_workers_as_they_can(tmp_path: Path) -> None:
    (plan,) = plans(hosts.proxy_processes(job(tmp_path), [Host("b", 2)], 1))
    assert plan.roles == ["scheduler", "server-0", "server-1", "worker-0", "worker-1"]
    assert plan.spec.num_workers == 3  # the roll call waits for the third, and goes without it


def test_a_share_becomes_processes_with_the_environment_of_their_role(tmp_path: Path) -> None:
    (_, plan) = plans(
        hosts.proxy_processes(job(tmp_path, environment={"A": "b c"}), [Host("a", 2), Host("b")], 4)
    )
    server, worker = hosts.host_processes(plan, tmp_path)
    assert worker.argv == (sys.executable, "-m", "mxtrain.fit", *FLAGS)
    assert (
        worker.environment.items()
        >= {
            "DMLC_ROLE": "worker",
            "DMLC_PS_ROOT_URI": "10.0.0.1",
            "DMLC_PS_ROOT_PORT": "9095",
            "DMLC_NUM_WORKER": "3",
            "DMLC_NUM_SERVER": "2",
            "MXTRAIN_NODE": "worker-2",
            "MXTRAIN_JOB": TOKEN,
            "MXTRAIN_GENERATION": "4",
            "A": "b c",
        }.items()
    )
    assert (server.environment["DMLC_ROLE"], server.environment["MXTRAIN_NODE"]) == ("server", "server-1")


def test_the_token_is_in_no_command_line(tmp_path: Path) -> None:
    for process in hosts.proxy_processes(job(tmp_path), [Host("a", 3)], 0):
        assert TOKEN not in " ".join(process.argv)
        assert TOKEN in process.stdin


def test_the_remote_command_survives_the_remote_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "with blanks; and $signs"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", "/some where")
    said = folder / "python"
    said.write_text('#!/bin/sh\necho "$PWD|$PYTHONPATH|$*"\n')
    said.chmod(0o755)
    line = ssh.agent_command(["ssh", "-T"], Host("me@node"), str(said), str(folder))
    assert line[:3] == ["ssh", "-T", "me@node"]
    done = subprocess.run(["sh", "-c", *line[3:]], capture_output=True, text=True, timeout=20)
    assert done.stdout == f"{folder}|/some where|-m mxtrain.launch host-agent\n"


def host_proxy(*command: str) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "mxtrain.launch", "host-proxy", *command]
    return subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_what_is_reached_hears_its_share_and_then_signals_and_says_how_it_ended() -> None:
    with host_proxy("sh", "-c", "read plan; echo $plan; read name; echo $name; exit 75") as proxy:
        assert proxy.stdin and proxy.stdout
        proxy.stdin.write(json.dumps({"a": 1}))
        proxy.stdin.close()
        assert json.loads(proxy.stdout.readline()) == {"a": 1}
        proxy.send_signal(signal.SIGUSR1)
        assert proxy.stdout.readline() == "SIGUSR1\n"
        assert proxy.wait(20) == 75


def test_what_is_reached_sees_its_input_end_when_the_carrier_is_killed() -> None:
    with host_proxy("sh", "-c", "read plan; echo there; cat; echo alone") as proxy:
        assert proxy.stdin and proxy.stdout
        proxy.stdin.close()
        assert proxy.stdout.readline() == "there\n"
        proxy.kill()
        assert proxy.stdout.readline() == "alone\n"


@pytest.mark.parametrize("name", ["ssh", "slurm", "k8s"])
def test_the_commands_beside_ps_sh_say_what_they_take(name: str, tmp_path: Path) -> None:
    line = [str(ROOT / "launch" / name), "--help"]
    done = subprocess.run(
        line,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=20,
        env={**os.environ, "PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: launch/{name} ")
    assert "--num-workers" in done.stdout


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "ssh --hosts nowhere -n 2 -- --train x.rec",
            "launch/ssh: --hosts nowhere: No such file or directory",
        ),
        ("ssh", "launch/ssh: the following arguments are required: --hosts"),
        ("slurm --time abc", "launch/slurm: argument --time: 'abc'"),
        ("k8s", "launch/k8s: the following arguments are required: --image"),
    ],
)
def test_the_commands_beside_ps_sh_refuse_under_their_own_name(line: str, told: str, tmp_path: Path) -> None:
    name, *words = line.split()
    done = subprocess.run(
        [str(ROOT / "launch" / name), *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=20,
        env={**os.environ, "PYTHON": sys.executable},
    )
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert done.stderr.startswith(told)
