"""launch/ps.sh and the scripts beside it: refusals in one line, the environment of a role, and no need of mxnet."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from mxtrain.launch import __main__ as launch

PS_SH = Path(__file__).resolve().parents[3] / "launch" / "ps.sh"
COUNTS = ["-n", "2", "-s", "1"]
ALLREDUCE = ["--", "--kvstore", "allreduce"]


def ps_sh(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command in some other folder, where mxtrain is not on the path and mxnet cannot be imported."""
    (folder / "mxnet.py").write_text("raise SystemExit('mxnet was imported')")
    own = {name: value for name, value in os.environ.items() if not name.startswith(("DMLC_", "MXTRAIN_"))}
    own.update(PYTHON=sys.executable, PYTHONPATH=str(folder), **environment)
    return subprocess.run(
        [str(PS_SH), *words], cwd=str(folder), env=own, capture_output=True, text=True, timeout=60
    )


@pytest.fixture
def root() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def cpu_seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_help_is_there_at_once(tmp_path: Path) -> None:
    """Measured in CPU time, which a busy machine does not stretch: there is nothing to wait for."""
    ps_sh(tmp_path, "--help")  # what is compiled once
    times = []
    for _ in range(2):
        before = cpu_seconds_of_children()
        done = ps_sh(tmp_path, "--help")
        times.append(cpu_seconds_of_children() - before)
    assert done.returncode == 0 and done.stderr == ""
    assert "launch/ps.sh scheduler|server|worker --root ADDRESS:PORT" in done.stdout
    assert min(times) < 0.3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the following arguments are required: scheduler|server|worker|local"),
        (["wroker"], "invalid choice: 'wroker'"),
        (["worker", *COUNTS], "--root is missing: give the scheduler's ADDRESS:PORT"),
        (["worker", "--root", "10.0.0.5", *COUNTS], "--root 10.0.0.5: give the scheduler's ADDRESS:PORT"),
        (["worker", "--root", "10.0.0.5:99999", *COUNTS], "--root 10.0.0.5:99999: give"),
        (["worker", "--root", "10.0.0.5:9091", "-s", "1"], "-n is missing"),
        (["worker", "--root", "10.0.0.5:9091", "-n", "2"], "-s is missing"),
        (
            ["worker", "--root", "10.0.0.5:9091", *COUNTS, *ALLREDUCE],
            "-s 1: --kvstore allreduce has no servers",
        ),
        (
            ["server", "--root", "10.0.0.5:9091", "-n", "2", *ALLREDUCE],
            "server: --kvstore allreduce has no servers",
        ),
        (["worker", "--root", "10.0.0.5:9091", "-n", "0", "-s", "1"], "0: give 1 or more"),
        (["worker", "--root", "10.0.0.5:9091", *COUNTS, "--index", "2"], "--index 2: the job has 2"),
        (["scheduler", "--root", "10.0.0.5:9091", *COUNTS, "--index", "0"], "--index 0: the job has 0"),
        (["local", "--root", "10.0.0.5:9091", *COUNTS], "leave --root and --index out"),
        (["local", *COUNTS, "--", "--kvstore", "device"], "--kvstore device has no roles"),
        (["local", *COUNTS, "--", "--epohcs", "1"], "unknown flag --epohcs; did you mean '--epochs'"),
        (["local", *COUNTS, "--", "--model", "small_cnn"], "--train is missing"),
    ],
)
def test_bad_usage_is_one_line(
    tmp_path: Path,
    words: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What ps.sh starts says it, here in this process."""
    monkeypatch.chdir(tmp_path)
    assert launch.main(words) == 2
    stdout, stderr = capsys.readouterr()
    assert stdout == ""
    assert len(stderr.splitlines()) == 1 and stderr.startswith("launch/ps.sh: ")
    assert said in stderr
    assert not (tmp_path / "runs" / "latest" / "logs").exists()


def test_ps_sh_refuses_without_mxnet_from_any_folder(tmp_path: Path) -> None:
    done = ps_sh(tmp_path, "local", *COUNTS, "--", "--model", "small_cnn")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("launch/ps.sh: --train is missing") and done.stderr.count("\n") == 1
    assert not (tmp_path / "runs" / "latest" / "logs").exists()


def test_a_role_alone_ends_with_its_own_refusal(tmp_path: Path, root: str) -> None:
    words = ["scheduler", "--root", root, "-n", "2", "-s", "3", "--", "--start-timeout", "1", "--out", "out"]
    done = ps_sh(tmp_path, *words)
    assert done.returncode == 2
    assert f"did not come to {root} in 1 s; here are scheduler (" in done.stdout.splitlines()[-1]
    assert "mxtrain.launch: scheduler ended with exit code 2: server-0" in done.stderr
    log = (tmp_path / "out" / "logs" / "scheduler.log").read_text()
    assert log.startswith("--- scheduler, attempt 0, ") and f"did not come to {root} in 1 s" in log


def test_a_job_without_servers_waits_for_workers_alone(tmp_path: Path, root: str) -> None:
    done = ps_sh(tmp_path, "scheduler", "--root", root, "-n", "2", *ALLREDUCE, "--start-timeout", "1")
    assert done.returncode == 2
    assert (
        f"worker-0 and worker-1 did not come to {root} in 1 s" in done.stderr and "server" not in done.stderr
    )


def test_the_variables_of_a_tracker_replace_the_flags(tmp_path: Path, root: str) -> None:
    address, port = root.split(":")
    counts = {"DMLC_NUM_WORKER": "2", "DMLC_NUM_SERVER": "3"}
    done = ps_sh(
        tmp_path,
        *("scheduler", "--", "--start-timeout", "1"),
        DMLC_PS_ROOT_URI=address,
        DMLC_PS_ROOT_PORT=port,
        **counts,
    )
    assert done.returncode == 2
    assert f"did not come to {root} in 1 s; here are scheduler (" in done.stderr


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        root = f"127.0.0.1:{other.getsockname()[1]}"
        done = ps_sh(tmp_path, "scheduler", "--root", root, *COUNTS, "--", "--start-timeout", "5")
    assert done.returncode == 2
    assert root in done.stderr and "restart" not in done.stderr
    assert "give another as --root" in done.stderr and "DMLC_" not in done.stderr


def test_a_root_that_nobody_knows_is_named_as_it_was_given(tmp_path: Path) -> None:
    flags = ["--", "--start-timeout", "1"]
    done = ps_sh(tmp_path, "server", "--root", "no-such-host.invalid:9091", *COUNTS, *flags)
    assert done.returncode == 2
    assert "--root no-such-host.invalid: no IPv4 address" in done.stderr and "DMLC_" not in done.stderr


def test_a_missing_scheduler_is_reported_with_the_flag(tmp_path: Path, root: str) -> None:
    done = ps_sh(tmp_path, "server", "--root", root, *COUNTS, "--", "--start-timeout", "1")
    assert done.returncode == 2
    assert f"no scheduler at {root}" in done.stderr and "as --root" in done.stderr
    assert "DMLC_" not in done.stderr


@pytest.mark.parametrize("name", ["ssh", "slurm", "k8s"])
def test_the_commands_beside_ps_sh_say_what_they_take(name: str, tmp_path: Path) -> None:
    line = [str(PS_SH.parent / name), "--help"]
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
    ("line", "message"),
    [
        (
            "ssh --hosts nowhere -n 2 -- --train x.rec",
            "launch/ssh: --hosts nowhere: No such file or directory",
        ),
        ("ssh", "launch/ssh: the following arguments are required: --hosts"),
        ("slurm --time abc", "launch/slurm: --time: 'abc'"),
        ("k8s", "launch/k8s: the following arguments are required: --image"),
    ],
)
def test_the_commands_beside_ps_sh_refuse_under_their_own_name(
    line: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert launch.main(line.split()) == 2
    stderr = capsys.readouterr().err
    assert len(stderr.splitlines()) == 1 and stderr.startswith(message), stderr
