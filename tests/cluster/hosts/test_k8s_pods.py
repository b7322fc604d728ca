"""The pods of `launch k8s` as processes on two hosts: the manifests give each pod what a job needs.

No Kubernetes is here. The test does what its controllers do: it fills in the fields that a manifest refers to, gives
pods names in DNS, and makes all pods of a JobSet anew when one of them fails.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator

import pytest
import yaml

from mxtrain.launch import k8s
from tests.support.commands import ROOT, Command
from tests.support.hosts.two_hosts import NamespaceHost, need, two_hosts
from tests.support.jobs.short_run import FLAGS, assert_same_weights, is_under_way, run_alone
from tests.support.runs import wait_until

pytestmark = [pytest.mark.system, pytest.mark.timeout(300)]

Pods = Dict[str, "subprocess.Popen[str]"]
HOST_OF = {"scheduler": 0, "server": 0, "worker": 1}


@pytest.fixture(scope="module")
def hosts() -> Iterator[tuple[NamespaceHost, NamespaceHost]]:
    need("unshare")
    with two_hosts() as made:
        yield made


def rendered(form: str, digits: Path, out: Path, *more: str) -> list[dict[str, Any]]:
    data = ["--train", str(digits / "train.rec"), "--val", str(digits / "val.rec"), "--out", str(out)]
    asked = ["--image", "none", "--name", "digits", "-n", "2", "-s", "1", "--form", form]
    return list(yaml.safe_load_all(k8s.render(asked, [*data, *FLAGS, *more])))


def specs(documents: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The Job of each role, as the JobSet's controller or the manifest itself names it."""
    (jobset,) = [each for each in documents if each["kind"] == "JobSet"] or [None]
    if jobset is None:
        return {each["metadata"]["name"]: each["spec"] for each in documents if each["kind"] == "Job"}
    jobs = jobset["spec"]["replicatedJobs"]
    return {f"digits-{each['name']}-0": each["template"]["spec"] for each in jobs}


def environment(
    container: dict[str, Any], index: int, attempt: int, address: str, token: str
) -> dict[str, str]:
    """A pod's environment as the kubelet makes it: with its fields, and with earlier variables for $(NAME)."""
    fields = {
        "status.podIP": address,
        "metadata.annotations['batch.kubernetes.io/job-completion-index']": str(index),
        "metadata.annotations['batch.kubernetes.io/job-index-failure-count']": str(attempt),
        "metadata.labels['jobset.sigs.k8s.io/restart-attempt']": str(attempt),
    }
    made: dict[str, str] = {}
    for each in container["env"]:
        source = each.get("valueFrom", {})
        value = token if "secretKeyRef" in source else each.get("value")
        value = fields[source["fieldRef"]["fieldPath"]] if "fieldRef" in source else value
        made[each["name"]] = re.sub(r"\$\((\w+)\)", lambda found: made[found[1]], value)
    return made


@contextlib.contextmanager
def pods(
    hosts: tuple[NamespaceHost, NamespaceHost],
    documents: list[dict[str, Any]],
    folder: Path,
    attempt: int = 0,
) -> Iterator[Pods]:
    (token,) = (each["stringData"]["token"] for each in documents if each["kind"] == "Secret")
    names = folder / "names"  # the names that the headless service has in DNS
    names.write_text(
        "".join(
            f"{hosts[HOST_OF[job.split('-')[1]]].address} {job}-{index}.digits\n"
            for job, spec in specs(documents).items()
            for index in range(spec["completions"])
        )
    )
    running: Pods = {}
    with contextlib.ExitStack() as stack:
        for job, spec in specs(documents).items():
            (container,) = spec["template"]["spec"]["containers"]
            for index in range(spec["completions"]):
                host = hosts[HOST_OF[job.split("-")[1]]]
                begin = f'mount --bind {names} /etc/hosts && exec "$@"'
                words = [sys.executable, *container["command"][1:], *container["args"]]
                pod = subprocess.Popen(
                    host.inside("unshare", "--mount", "sh", "-c", begin, "sh", *words),
                    env={**os.environ, **environment(container, index, attempt, host.address, token)},
                    cwd=ROOT,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                stack.callback(pod.wait)
                stack.callback(pod.kill)
                running[f"{job}-{index}"] = pod
        yield running


def wait_for_all(running: Pods) -> dict[str, int]:
    """The exit codes."""
    return {name: pod.wait(200) for name, pod in running.items()}


@pytest.fixture(scope="module")
def undisturbed(digits: Path, tmp_path_factory: pytest.TempPathFactory, command: Command) -> Path:
    return run_alone(tmp_path_factory, command, digits)


def test_plain_jobs_train(
    hosts: tuple[NamespaceHost, NamespaceHost], digits: Path, undisturbed: Path, tmp_path: Path
) -> None:
    with pods(hosts, rendered("plain", digits, tmp_path / "run"), tmp_path) as running:
        assert set(running) == {"digits-scheduler-0", "digits-server-0", "digits-worker-0", "digits-worker-1"}
        assert set(wait_for_all(running).values()) == {0}
    assert_same_weights(tmp_path / "run", undisturbed)


# tests/unit/launch/test_k8s.py has what is rendered, test_ssh_hosts.py jobs over hosts that begin again.
@pytest.mark.slow
def test_a_jobset_restarts_after_a_killed_pod_and_ends_with_the_same_weights(
    hosts: tuple[NamespaceHost, NamespaceHost], digits: Path, undisturbed: Path, tmp_path: Path
) -> None:
    documents = rendered("jobset", digits, tmp_path / "run", "--resume", "never")
    final = specs(documents)["digits-worker-0"]["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"]
    with pods(hosts, documents, tmp_path) as running:
        wait_until(lambda: is_under_way(tmp_path / "run"), running["digits-worker-0-0"])
        running["digits-server-0-0"].send_signal(signal.SIGKILL)
        codes = wait_for_all(running)
    assert codes.pop("digits-server-0-0") == -signal.SIGKILL
    assert set(codes.values()).isdisjoint({0, *final}), codes
    with pods(hosts, documents, tmp_path, attempt=1) as running:
        assert set(wait_for_all(running).values()) == {0}
    assert_same_weights(tmp_path / "run", undisturbed)
    assert not (tmp_path / "run" / "previous-1").exists()


def test_pods_with_bad_data_fail_for_good(
    hosts: tuple[NamespaceHost, NamespaceHost], digits: Path, tmp_path: Path
) -> None:
    documents = rendered("jobset", tmp_path, tmp_path / "run")
    with pods(hosts, documents, tmp_path) as running:
        assert set(wait_for_all(running).values()) == {3}
