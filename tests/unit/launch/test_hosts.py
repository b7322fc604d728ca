"""A job over several hosts as plain data: host files, the placement of roles, and what each host gets to know."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mxtrain import config
from mxtrain.core.errors import UsageError
from mxtrain.launch import hosts
from mxtrain.launch.hosts import Host, HostPlan, HostsJob
from mxtrain.launch.plan import JobSpec, ProcessSpec

FLAGS = ("--train", "t.rec", "--kvstore", "dist_sync", "--num-workers", "3", "--num-servers", "2")
TOKEN = "d6f1a0"


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


def test_a_host_file_has_names_slots_and_comments() -> None:
    text = "# the cluster\u2028of old\nnode1 slots=2\n\n  me@node2   # its neighbour\n10.0.0.3\n"
    found = hosts.parse_host_file(text, "hosts")
    assert found == [Host("node1", 2), Host("me@node2", 1), Host("10.0.0.3", 1)]
    assert [host.name for host in found] == ["node1", "node2", "10.0.0.3"]


@pytest.mark.parametrize(
    ("text", "message"),
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
def test_a_wrong_host_file_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        hosts.parse_host_file(text, "hosts")


def test_roles_are_placed_slot_by_slot() -> None:
    a, b, c = Host("a", 2), Host("b"), Host("c")
    assert hosts.place_roles([a, b, c], 3, 2) == {
        a: ["scheduler", "server-0", "worker-0", "worker-1"],
        b: ["server-1", "worker-2"],
    }


@pytest.mark.parametrize("num_hosts", [1, 2, 5])
@pytest.mark.parametrize("num_workers", [1, 3, 5])
@pytest.mark.parametrize("num_servers", [0, 1, 4])
def test_each_role_runs_once(num_hosts: int, num_workers: int, num_servers: int) -> None:
    known = [Host(f"h{number}", 5) for number in range(num_hosts)]
    roles = [role for names in hosts.place_roles(known, num_workers, num_servers).values() for role in names]
    servers, workers = (
        [f"{kind}-{n}" for n in range(count)]
        for kind, count in (("server", num_servers), ("worker", num_workers))
    )
    assert sorted(roles) == sorted(["scheduler", *servers, *workers])


def test_the_scheduler_address_is_one_that_all_hosts_reach() -> None:
    local, other = Host("localhost"), Host("10.0.0.2")
    assert hosts.scheduler_address([local]) == "127.0.0.1"
    assert hosts.scheduler_address([other, local]) == "10.0.0.2"
    assert hosts.scheduler_address([local, other], "10.0.0.1") == "10.0.0.1"
    with pytest.raises(UsageError, match=r"localhost is 127\.0\.0\.1 here.*--root"):
        hosts.scheduler_address([local, other])
    with pytest.raises(UsageError, match=r"no\.such\.host\.invalid: no IPv4 address.*--root"):
        hosts.scheduler_address([Host("no.such.host.invalid"), other])


def test_each_attempt_has_its_own_port_and_number(tmp_path: Path) -> None:
    known = [Host("a", 2), Host("b")]
    for attempt, port in ((0, 9091), (3, 9094), (8, 9091), (21, 9096)):  # never one that is not its own
        for plan in plans(hosts.proxy_processes(job(tmp_path), known, attempt)):
            assert plan.spec == JobSpec("10.0.0.1", port, 3, 2)
            assert (plan.attempt, plan.token, tuple(plan.flags)) == (attempt, TOKEN, FLAGS)


def test_fewer_hosts_have_as_many_workers_as_they_can(tmp_path: Path) -> None:
    (plan,) = plans(hosts.proxy_processes(job(tmp_path), [Host("b", 2)], 1))
    assert plan.roles == ["scheduler", "server-0", "server-1", "worker-0", "worker-1"]
    assert plan.spec.num_workers == 3  # the rendezvous waits for the third, and goes without it


def test_a_host_plan_becomes_processes_with_the_environment_of_their_role(tmp_path: Path) -> None:
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


def test_hosts_of_a_job_without_servers_start_none(tmp_path: Path) -> None:
    flags = ["--train", "t.rec", "--kvstore", "allreduce", "--num-workers", "3", "--out", str(tmp_path)]
    without = job(tmp_path, run=config.parse(flags), flags=tuple(flags))
    first, second = plans(hosts.proxy_processes(without, [Host("a", 2), Host("b")], 0))
    assert (first.roles, second.roles) == (["scheduler", "worker-0", "worker-1"], ["worker-2"])
    assert first.spec == second.spec == JobSpec("10.0.0.1", 9091, 3, 0)
