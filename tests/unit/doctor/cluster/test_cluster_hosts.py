"""The examination of hosts: probes as processes of this machine, one at each of several loopback addresses."""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from pathlib import Path
from typing import Any, Mapping, Sequence

import pytest

from mxtrain.core.errors import UsageError
from mxtrain.doctor.cluster import cluster_advice, cluster_command, cluster_hosts, tcp_probe, traffic
from mxtrain.launch.hosts import Host

PROBE = [sys.executable, "-m", "mxtrain.doctor.cluster.host_probe"]
AHEAD = (
    "import time; real = time.time; time.time = lambda: real() + 90; "
    "from mxtrain.doctor.cluster import host_probe; host_probe.main()"
)
FAILING = {
    "127.0.0.11": (
        ["sh", "-c", "echo 'ssh: connect to host: No route to host' >&2; exit 255"],
        "cannot be reached: ssh",
    ),
    "127.0.0.12": ([sys.executable, "-m", "mxtrain.no_such.probe"], "has no mxtrain"),
    "127.0.0.13": (
        ["sh", "-c", "echo welcome; echo 'python9: not found' >&2; exit 127"],
        "has no such Python",
    ),
    "127.0.0.14": (["sh", "-c", "echo mxtrain; exec sleep 60"], "hangs: no answer about 'facts' within 10 s"),
    "127.0.0.15": (["no-such-command"], "cannot be asked: no-such-command: No such file"),
}


def examined(commands: Mapping[str, Sequence[str]], out: Path, port: int = 0) -> dict[str, Any]:
    """Return what is found of hosts, by their loopback addresses, and of the way between them."""
    hosts = [Host(address) for address in commands]
    port = port or free_port()
    return cluster_hosts.examine(
        hosts, lambda host: commands[host.name], lambda host: host.name, port, str(out), lambda what: None
    )


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return min(int(found.getsockname()[1]), 60000)


@pytest.mark.slow  # tests/cluster/hosts/test_doctor_hosts.py has real hosts, of which some do not answer
def test_hosts_are_measured_and_those_that_fail_are_named_in_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One has a clock 90 s ahead, one a port that another program has; five fail, each in its own way."""
    monkeypatch.setattr(cluster_hosts, "FACTS_SECONDS", 10.0)
    monkeypatch.setattr(cluster_hosts, "RATE_SECONDS", 0.05)
    commands = {"127.0.0.1": PROBE, "127.0.0.2": [sys.executable, "-c", AHEAD], "127.0.0.3": PROBE}
    commands.update({address: command for address, (command, _) in FAILING.items()})
    started = time.monotonic()
    with socket.socket() as taken:
        taken.bind(("127.0.0.3", 0))
        taken.listen()
        port = min(int(taken.getsockname()[1]), 65000)
        found = examined(commands, tmp_path, port)
    assert time.monotonic() - started < 60
    by_name = {host["host"]: host for host in found["hosts"]}
    for address, (_, said) in FAILING.items():
        assert said in by_name[address]["error"]
    assert [host["host"] for host in cluster_advice.reached_hosts(found)] == [
        "127.0.0.1",
        "127.0.0.2",
        "127.0.0.3",
    ]
    assert by_name["127.0.0.2"]["clock_offset"] == pytest.approx(90, abs=1)
    assert abs(by_name["127.0.0.1"]["clock_offset"]) < 1
    assert [by_name[f"127.0.0.{number}"]["disk"]["shared_with"] for number in (1, 2, 3)] == [
        [1, 2],
        [0, 2],
        [0, 1],
    ]
    assert not list(tmp_path.iterdir())  # neither marks nor files of the probe stay

    assert {(pair["from"], pair["to"]) for pair in found["pairs"]} == {
        (a, b) for a in range(3) for b in range(3) if a != b
    }
    assert all(pair["bytes_per_second"] > 1e6 and 0 < pair["milliseconds"] < 1000 for pair in found["pairs"])
    assert list(by_name["127.0.0.3"]["port_errors"]) == [str(port)]
    told = "\n".join(cluster_advice.advise(found))
    assert f"127.0.0.3: port {port} is taken (Address already in use); give launch another --port" in told
    assert "the clock of 127.0.0.2 is 90 s ahead of the others" in told
    assert "127.0.0.11: cannot be reached: ssh: connect to host: No route to host" in told
    assert "differs" not in told
    rows = dict(cluster_advice.rows(found))
    assert len(rows["unreachable"]) == 5 and len(rows["network"]) == 3
    assert rows["versions"][0].startswith("the same everywhere: python 3.")


def test_a_listener_answers_nobody_without_the_token_and_closes() -> None:
    listener = tcp_probe.Listener("127.0.0.1", [free_port()], "a" * 64)
    (port,) = listener.ports
    assert "problem" not in tcp_probe.measure("127.0.0.1", port, "a" * 64, 0.02)
    assert tcp_probe.measure("127.0.0.1", port, "b" * 64, 0) == {"problem": "cut off"}
    with socket.create_connection(("127.0.0.1", port), timeout=5) as stranger:
        stranger.sendall(b"GET / HTTP/1.0\r\n\r\n" + bytes(64))
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(10) == b""
    listener.close()
    assert tcp_probe.measure("127.0.0.1", port, "a" * 64, 0) == {"problem": "refused"}


def test_the_offset_of_a_clock_is_that_of_its_shortest_round_trip() -> None:
    trips = [(0.0, 105.0, 9.0), (10.0, 110.2, 10.4), (20.0, 127.0, 26.0)]
    assert cluster_hosts.offset(trips) == pytest.approx((100.0, 0.2))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8])
def test_every_two_hosts_meet_once_and_each_is_in_one_pair_at_a_time(count: int) -> None:
    met = []
    for pairs in cluster_hosts.rounds(count):
        places = [place for pair in pairs for place in pair]
        assert len(places) == len(set(places))
        met += [tuple(sorted(pair)) for pair in pairs]
    assert sorted(met) == [(a, b) for a in range(count) for b in range(a + 1, count)]


def test_hosts_are_names_or_a_file(tmp_path: Path) -> None:
    assert [host.target for host in cluster_command.hosts_of("a,me@b,c")] == ["a", "me@b", "c"]
    (tmp_path / "hosts").write_text("a slots=2\nb\n")
    assert [host.slots for host in cluster_command.hosts_of(str(tmp_path / "hosts"))] == [2, 1]
    with pytest.raises(UsageError, match="there is no such file"):
        cluster_command.hosts_of(str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match="names a again"):
        cluster_command.hosts_of("a,a")
    with pytest.raises(UsageError, match="expected a line such as"):
        cluster_command.hosts_of("-oProxyCommand=x,b")


def host(number: int, **changes: Any) -> dict[str, Any]:
    return {
        **{
            "host": f"h{number}",
            "address": f"10.0.0.{number}",
            "cpu": "A CPU",
            "cores": 8,
            "threads": 0,
            "gpus": [],
        },
        **{
            "versions": {"python": "3.11.7", "mxtrain": "1"},
            "kernels": {"openblas": "Zen", "onednn": "AVX2"},
        },
        **{"clock_offset": 0.0, "clock_error": 0.001, "memory_bytes": 1 << 34, "ports": [9091, 9092, 40001]},
        "firewalls": [],
        "disk": {
            **{"error": None, "free_bytes": 1 << 40, "write_bytes_per_second": 1e9, "sync_milliseconds": 1.0},
            **{"file_system": {"type": "ext4", "mount": "/"}, "shared_with": []},
        },
        **changes,
    }


def told(*hosts: Mapping[str, Any], pairs: Sequence[Mapping[str, Any]] = ()) -> str:
    found = {"out": "runs/a", "port": 9091, "hosts": hosts, "pairs": pairs}
    cluster_advice.rows(found)
    return "\n".join(cluster_advice.advise(found))


def pair(source: int, target: int, rate: float, **problems: str) -> dict[str, Any]:
    return {"from": source, "to": target, "bytes_per_second": rate, "milliseconds": 0.1, "problems": problems}


@pytest.mark.parametrize(
    ("num_hosts", "seconds", "advice"),
    [
        (
            2,
            "1 s a step over --kvstore allreduce, 1 s over dist_sync with one server",
            "sends as much as dist_sync",
        ),
        (
            4,
            "1.5 s a step over --kvstore allreduce, 3 s over dist_sync",
            "faster here; dist_sync takes --num-servers 4 ",
        ),
        (5, "1.6 s a step over --kvstore allreduce, 4 s over dist_sync", "--num-servers 5 for as few bytes"),
    ],
)
def test_what_a_step_takes_over_each_store_follows_from_the_rate(
    num_hosts: int, seconds: str, advice: str
) -> None:
    pairs = [pair(a, b, 100e6) for a in range(num_hosts) for b in range(num_hosts) if a != b]
    hosts = [host(number) for number in range(num_hosts)]
    said = "\n".join(sums_row(hosts, pairs))
    assert f"of a worker on each of {num_hosts} hosts at 100 MB/s: {seconds}" in said
    assert advice in said


def test_of_hosts_that_were_not_measured_no_store_is_said_to_be_faster() -> None:
    unreachable = {"host": "h1", "error": "cannot be reached"}
    for hosts, pairs in (([host(0), host(1)], []), ([host(0), unreachable], [pair(0, 1, 0)])):
        assert sums_row(hosts, pairs) == ["unknown: no pair of hosts was measured"]


def sums_row(hosts: Sequence[Mapping[str, Any]], pairs: Sequence[Mapping[str, Any]]) -> list[str]:
    found = {"out": "runs/a", "port": 9091, "hosts": hosts, "pairs": pairs}
    return dict(cluster_advice.rows(found))["sums"]


@pytest.mark.parametrize(("num_hosts", "fewest"), [(2, 0), (3, 3), (4, 3), (8, 5), (64, 33)])
def test_servers_pay_from_more_than_half_as_many_hosts_of_their_own_on(num_hosts: int, fewest: int) -> None:
    assert traffic.servers_that_pay(num_hosts) == fewest


def test_a_server_beside_each_worker_sends_what_allreduce_does() -> None:
    for num_hosts in (2, 3, 16):
        beside = traffic.of_servers_beside_workers(100.0, num_hosts, num_hosts)
        assert beside == pytest.approx(traffic.of_allreduce(100.0, num_hosts))
    assert traffic.of_servers(100.0, 8, 2) == 400.0


def test_each_difference_is_told_with_what_it_means() -> None:
    assert told(host(0), host(1)) == ""
    disk = host(0)["disk"]
    for changes, said in (
        (
            {"versions": {"python": "3.11.7", "mxtrain": "2"}},
            "mxtrain differs (1 on h0, 2 on h1): a job is refused",
        ),
        ({"versions": {"python": "3.9.1", "mxtrain": "1"}}, "Python differs (3.11.7 on h0, 3.9.1 on h1)"),
        ({"kernels": {"openblas": "Zen", "onednn": "AVX512"}}, "CPUs differ in their kernels: last bits"),
        ({"cores": 4}, "--threads 4 makes last bits alike"),
        ({"threads": 2}, "OMP_NUM_THREADS is set on h1 only"),
        ({"disk": {**disk, "free_bytes": 1000}}, "h1: --out runs/a has 1 kB free: checkpoints soon fill it"),
        (
            {"disk": {**disk, "error": "Read-only file system"}},
            "cannot be written to (Read-only file system)",
        ),
        (
            {"disk": {**disk, "write_bytes_per_second": 1e7}},
            "takes 10 MB/s: a checkpoint of 300 MB needs 30 s",
        ),
        ({"disk": {**disk, "sync_milliseconds": 300}}, "needs 300 ms until bytes are safe"),
        ({"port_errors": {"0": "Cannot assign requested address"}}, "h1 cannot listen at 10.0.0.1"),
    ):
        assert said in told(host(0), host(1, **changes))
    shared = host(0, disk={**disk, "shared_with": [1]}), host(1, disk={**disk, "shared_with": [0]})
    assert told(*shared) == ""
    assert "one folder for some hosts and another for others (h0 and h1; h2)" in told(*shared, host(2))


def test_ports_and_links_are_told_by_host() -> None:
    hosts = host(0), host(1), host(2, firewalls=["nftables"])
    fine = [pair(a, b, 1e9) for a in range(3) for b in range(2) if a != b]
    closed = {"9091": "dropped", "9092": "dropped"}
    said = told(*hosts, pairs=[*fine, pair(0, 2, 1e9, **closed), pair(1, 2, 1e9, **closed)])
    assert said.startswith("h0 and h1 do not reach ports 9091 and 9092 of h2 (10.0.0.2): dropped")
    assert "let nftables there open them between the hosts" in said
    said = told(*hosts, pairs=[*fine, pair(0, 2, 0, **closed, **{"40001": "dropped"})])
    assert "h0 does not reach ports 9091, 9092 and 40001 of h2 (10.0.0.2): dropped" in said
    said = told(*hosts, pairs=[*fine, pair(0, 2, 1e7), pair(1, 2, 1e9)])
    assert "from h0 to h2 10 MB/s go through, between others 1 GB/s: 100 MB of gradients take 10 s" in said
    assert told(*hosts[:2], pairs=[pair(0, 1, 1e7), pair(1, 0, 1e7)]).startswith("--compress 2bit")
