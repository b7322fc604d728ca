"""The DMLC_* environment: its meaning, and the refusal of a wrong one before mxnet could hang on it."""

from __future__ import annotations

import dataclasses
import socket
from typing import Any

import pytest

from mxtrain.cluster import environment
from mxtrain.config import Layout, Run
from mxtrain.core.errors import UsageError

WHOLE = {
    "DMLC_ROLE": "worker",
    "DMLC_PS_ROOT_URI": "127.0.0.1",
    "DMLC_PS_ROOT_PORT": "9091",
    "DMLC_NUM_WORKER": "2",
    "DMLC_NUM_SERVER": "1",
}
RUN = Run(layout=Layout(kvstore="dist_sync", start_timeout=0.1))

SECRET = "one of sixteen letters or more"


def spec(environ: dict[str, str], **layout: Any) -> environment.NodeSpec:
    run = dataclasses.replace(RUN, layout=dataclasses.replace(RUN.layout, **layout))
    found = environment.node_spec({**WHOLE, **environ}, run)
    assert found is not None
    return found


def test_without_its_variables_there_is_no_node_spec() -> None:
    assert environment.node_spec({"PATH": "/bin", "DMLC_LOCAL": "1", "DMLC_INTERFACE": "eth0"}, RUN) is None


def test_a_complete_set_of_variables_is_a_node_spec() -> None:
    found = spec({"MXTRAIN_NODE": "worker-1", "MXTRAIN_JOB": "secret", "MXTRAIN_GENERATION": "3"})
    assert found == environment.NodeSpec(
        "worker",
        "127.0.0.1",
        9091,
        2,
        1,
        "127.0.0.1",
        name="worker-1",
        token="secret",
        attempt=3,
        is_restart=True,
        job=found.job,
    )


def test_a_job_is_identified_by_its_id_or_a_hash_of_its_secret() -> None:
    assert spec({"MXTRAIN_JOB": "secret", "MXTRAIN_JOB_ID": "slurm-7"}).job == "slurm-7"
    named, other = spec({"MXTRAIN_JOB": "secret"}).job, spec({"MXTRAIN_JOB": "another"}).job
    assert named == spec({"MXTRAIN_JOB": "secret", "MXTRAIN_GENERATION": "1"}).job != other
    assert named and "secret" not in named


@pytest.mark.parametrize(
    ("variable", "count", "is_restart"),
    [("MXTRAIN_RESTARTS", "", False), ("MXTRAIN_RESTARTS", "0", False), ("MXTRAIN_RESTARTS", "2", True)],
)
def test_a_process_that_was_started_again_knows_it(variable: str, count: str, is_restart: bool) -> None:
    assert spec({variable: count}).is_restart == is_restart


@pytest.mark.parametrize("name", sorted(WHOLE))
@pytest.mark.parametrize("value", [None, ""])
def test_a_missing_variable_is_named(name: str, value: str | None) -> None:
    environ = {**WHOLE, name: value} if value is not None else {k: v for k, v in WHOLE.items() if k != name}
    with pytest.raises(UsageError, match=f"^{name} is not set, though DMLC_"):
        environment.node_spec({k: v for k, v in environ.items() if v is not None}, RUN)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("DMLC_ROLE", "workers", "did you mean 'worker'"),
        ("DMLC_PS_ROOT_PORT", "0", "from 1 to 65535"),
        ("DMLC_PS_ROOT_PORT", "65536", "from 1 to 65535"),
        ("DMLC_PS_ROOT_PORT", "9091.5", "whole number"),
        ("DMLC_NUM_WORKER", "0", "from 1"),
        ("DMLC_NUM_SERVER", "-1", "from 1"),
        ("DMLC_NUM_SERVER", "²", "from 1"),
        ("DMLC_NUM_WORKER", "9" * 5000, "from 1"),
        ("MXTRAIN_GENERATION", "x", "from 0"),
        ("MXTRAIN_NODE", "server-1", "the name of a worker is worker-0"),
        ("MXTRAIN_NODE", "worker-1\n", "the name of a worker is worker-0"),
        ("DMLC_PS_ROOT_URI", "no-such-host.invalid", "no IPv4 address"),
        ("DMLC_PS_ROOT_URI", "::1", "no IPv4 address"),
        ("DMLC_PS_ROOT_URI", "0.0.0.0", "stands for every address"),
        ("DMLC_PS_ROOT_URI", "a" * 300, "no IPv4 address"),
    ],
)
def test_a_wrong_variable_is_named_with_the_way_out(name: str, value: str, reason: str) -> None:
    with pytest.raises(UsageError) as refusal:
        spec({name: value})
    assert str(refusal.value).startswith(f"{name}=") and reason in str(refusal.value)


@pytest.mark.parametrize(
    ("layout", "reason"),
    [
        ({"num_workers": 3}, "--num-workers 3 contradicts DMLC_NUM_WORKER=2"),
        ({"num_servers": 2}, "--num-servers 2 contradicts DMLC_NUM_SERVER=1"),
    ],
)
def test_flags_that_contradict_the_variables(layout: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        spec({}, **layout)
    assert spec({}, num_workers=2, num_servers=1).num_workers == 2


def test_names_become_addresses_and_loopback_stays_loopback() -> None:
    found = spec({"DMLC_PS_ROOT_URI": "localhost", "DMLC_NODE_HOST": "10.1.2.3", "DMLC_INTERFACE": "eth0"})
    assert (found.root, found.node_host) == ("127.0.0.1", "127.0.0.1")


def test_hosts_have_a_secret_that_cannot_be_guessed_and_one_host_needs_none() -> None:
    far = {"DMLC_PS_ROOT_URI": "192.0.2.1", "DMLC_NODE_HOST": "10.1.2.3"}
    assert spec({**far, "MXTRAIN_SECRET": SECRET, "MXTRAIN_JOB": "7"}).secret == SECRET
    assert spec({**far, "MXTRAIN_JOB": SECRET}).secret == SECRET
    assert spec({"MXTRAIN_SECRET": SECRET}).secret == ""
    for environ, reason in (
        ({}, "MXTRAIN_SECRET is not set, without which no host lets another one in; give all"),
        ({"MXTRAIN_SECRET": SECRET[:15]}, "MXTRAIN_SECRET: 15 characters can be guessed; give all"),
        ({"MXTRAIN_JOB": "7"}, "MXTRAIN_JOB: 1 characters can be guessed"),
    ):
        with pytest.raises(UsageError, match=reason):
            spec({**far, **environ})


def own_address() -> str:
    """An address of this machine beyond loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no network")
        return str(probe.getsockname()[0])


def test_a_node_has_the_address_of_the_route_to_the_root() -> None:
    far = {"DMLC_PS_ROOT_URI": "192.0.2.1", "MXTRAIN_SECRET": SECRET}
    assert spec(far).node_host == own_address()
    assert spec({**far, "DMLC_NODE_HOST": "10.1.2.3"}).node_host == "10.1.2.3"
    # A name that is loopback here says nothing to other hosts.
    assert spec({**far, "DMLC_NODE_HOST": "localhost"}).node_host == own_address()
    assert spec({**far, "DMLC_INTERFACE": "lo"}).node_host == "127.0.0.1"
    with pytest.raises(UsageError, match=r"DMLC_INTERFACE=nowhere0: .*this host has .*lo"):
        spec({**far, "DMLC_INTERFACE": "nowhere0"})


def test_without_a_secret_the_token_is_made_of_address_port_and_counts() -> None:
    assert spec({}).token == spec({"DMLC_ROLE": "server", "DMLC_PS_ROOT_URI": "localhost"}).token
    for other in ({"DMLC_NUM_WORKER": "3"}, {"DMLC_PS_ROOT_PORT": "9092"}, {"MXTRAIN_JOB": "x"}):
        assert spec(other).token != spec({}).token


def test_a_job_that_sums_without_servers_has_none() -> None:
    alone = {"DMLC_NUM_SERVER": "0"}
    for role in ("scheduler", "worker"):
        found = spec({**alone, "DMLC_ROLE": role}, kvstore="allreduce")
        assert (found.role, found.num_workers, found.num_servers) == (role, 2, 0)
    with pytest.raises(UsageError, match="DMLC_ROLE=server: --kvstore allreduce has no servers; start none"):
        spec({**alone, "DMLC_ROLE": "server"}, kvstore="allreduce")
    with pytest.raises(UsageError, match="DMLC_NUM_SERVER=1: give a whole number from 0 to 0"):
        spec({}, kvstore="allreduce")
    with pytest.raises(UsageError, match="DMLC_NUM_SERVER=0: give a whole number from 1"):
        spec(alone)


def test_a_run_has_its_clusters_counts_and_no_number_of_servers_that_its_store_lacks() -> None:
    run = Run(layout=Layout(kvstore="allreduce", start_timeout=0.1))
    found = environment.node_spec({**WHOLE, "DMLC_NUM_SERVER": "0"}, run)
    assert found is not None
    layout = found.with_counts(run).layout
    assert (layout.num_workers, layout.num_servers) == (2, Layout.num_servers)
