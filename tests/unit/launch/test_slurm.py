"""The batch script for Slurm, and how an allocation's nodes become hosts; a real Slurm is in tests/cluster."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from mxtrain import config
from mxtrain.core.errors import UsageError
from mxtrain.launch import hosts, slurm
from mxtrain.launch.hosts import Host, HostsJob

FLAGS = ["--train", "a b.rec", "--num-servers", "2", "--epochs", "3"]


def rendered(*arguments: str) -> str:
    return slurm.render(["-n", "4", "--nodes", "2", *arguments], FLAGS)


def directives(script: str) -> list[str]:
    return [line.split(" ", 1)[1] for line in script.splitlines() if line.startswith("#SBATCH ")]


def test_the_script_asks_for_what_was_asked() -> None:
    asked = directives(
        rendered("--name", "digits", "--time", "02:00:00", "--cpus-per-node", "8", "--save-seconds", "90")
    )
    assert asked == [
        "--job-name=digits",
        "--nodes=2",
        "--ntasks-per-node=1",
        "--cpus-per-task=8",
        "--time=02:00:00",
        "--signal=B:USR1@90",
        "--output=%x-%j.log",
        "--open-mode=append",
        "--requeue",
    ]


@pytest.mark.parametrize("time", ["90", "90:30", "02:00:00", "2-12", "2-12:30", "2-12:30:15"])
def test_a_time_is_what_sbatch_takes(time: str) -> None:
    assert f"--time={time}" in directives(rendered("--time", time))


@pytest.mark.parametrize("time", ["abc", "", "2h", "1:2:3:4", "1-", "-5:00", "1-2-3", "1:", "1.5", "1:00\n"])
def test_another_time_is_refused_before_sbatch_does(time: str) -> None:
    with pytest.raises(UsageError, match="--time"):
        rendered(f"--time={time}")


def test_sites_add_their_own_options() -> None:
    assert directives(rendered("--sbatch=--gres=gpu:4", "--sbatch=--partition=long"))[-2:] == [
        "--gres=gpu:4",
        "--partition=long",
    ]


def test_the_script_becomes_the_supervisor_with_the_flags_as_given(tmp_path: Path) -> None:
    """The shell itself runs it: a program that says what it was given stands where Python does."""
    said = tmp_path / "python"
    said.write_text('#!/bin/sh\necho "$$|$PWD"\nfor word; do echo "$word"; done\n')
    said.chmod(0o755)
    folder = tmp_path / "with blanks"
    folder.mkdir()
    script = tmp_path / "job"
    script.write_text(rendered("--python", str(said), "--folder", str(folder)))
    with subprocess.Popen(["bash", str(script)], stdout=subprocess.PIPE, text=True) as shell:
        first, *words = shell.communicate(timeout=20)[0].splitlines()
    assert first == f"{shell.pid}|{folder}"  # the same process, which is the one that Slurm signals
    assert words[:5] == ["-m", "mxtrain.launch", "srun", "--requeue", "--"]
    assert words[5:] == [*FLAGS, "--num-workers", "4", "--kvstore", "dist_sync"]


def test_what_fit_would_refuse_is_refused_before_it_waits_in_a_queue() -> None:
    with pytest.raises(UsageError, match="--optimizer"):
        slurm.render([], [*FLAGS, "--optimizer", "adan"])
    with pytest.raises(UsageError, match="--kvstore device has no roles"):
        slurm.render([], [*FLAGS, "--kvstore", "device"])


def test_workers_are_divided_among_the_nodes() -> None:
    assert slurm.hosts_of("n1\nn2\n", 4) == [Host("n1", 2), Host("n2", 2)]
    assert slurm.hosts_of("n1\nn2\nn3\n", 4) == [Host("n1", 2), Host("n2", 1), Host("n3", 1)]
    assert slurm.hosts_of("n1\nn2\n", 1) == [Host("n1", 1), Host("n2", 0)]


def test_the_address_of_a_node_is_slurms() -> None:
    shown = "NodeName=n1 Arch=x86_64\n   NodeAddr=10.0.0.7 NodeHostName=n1 Version=22.05.8\n"
    assert slurm.node_address(shown) == "10.0.0.7"


def test_jobs_that_share_a_node_have_ports_of_their_own_over_all_attempts() -> None:
    """However often each starts again."""

    def over_attempts(job_id: int) -> set[int]:
        run, command = config.parse(FLAGS), slurm.agent_command
        job = HostsJob(run, FLAGS, "secret", slurm.first_port(job_id), lambda used: "10.0.0.7", command)
        attempts = [hosts.proxy_processes(job, [Host("n1")], attempt) for attempt in range(30)]
        return {hosts.from_json(process.stdin).spec.port for processes in attempts for process in processes}

    used = [port for job_id in range(1000, 1020) for port in over_attempts(job_id)]
    assert len(used) == len(set(used)) == 20 * hosts.PORTS_FOR_ONE_JOB
    assert all(1024 < port < 32768 for port in used)


def test_a_step_runs_on_its_node_alone_beside_the_supervisor() -> None:
    words = slurm.agent_command(Host("n2"))
    assert shlex.join(words).startswith("srun --nodes=1 --ntasks=1 --nodelist=n2 --overlap")
    assert words[-3:] == ["-m", "mxtrain.launch", "host-agent"]


def test_a_requeued_job_is_the_same_job_in_another_attempt() -> None:
    first, again = ({"SLURM_JOB_ID": "7", **more} for more in ({}, {"SLURM_RESTART_COUNT": "1"}))
    assert slurm.job_identity(first) == {"MXTRAIN_JOB_ID": "slurm-7", "MXTRAIN_RESTARTS": "0"}
    assert slurm.job_identity(again) == {"MXTRAIN_JOB_ID": "slurm-7", "MXTRAIN_RESTARTS": "1"}


def test_outside_an_allocation_it_says_where_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_NODELIST", raising=False)
    with pytest.raises(UsageError, match="no Slurm allocation here"):
        slurm.launch([], FLAGS)
