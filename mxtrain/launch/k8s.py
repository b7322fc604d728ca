"""Kubernetes manifests of a job: a JobSet, or a Service and plain Indexed Jobs.

Owns what Kubernetes has to know about a job; nothing here talks to a cluster, `kubectl apply -f -` does. Each role
is an Indexed Job, each pod one process. With a JobSet the whole group restarts as one and knows its attempt's number;
with plain Jobs each pod restarts by itself and the rendezvous brings them together.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import secrets
from pathlib import Path
from typing import Any, Dict, Sequence

from mxtrain import config
from mxtrain.config.flags.arguments import Parser
from mxtrain.launch import logs
from mxtrain.launch.exits import FINAL_CODES
from mxtrain.launch.fit_flags import add_count_arguments, parse_fit_flags, program, with_counts
from mxtrain.launch.plan import GENERATION, RESTARTS

PORT = 9091
# Nodes have to come and images to be pulled; the flags of the job win.
DEFAULTS = ("--start-timeout", "1800")
GROUP = 1000  # of docker/Dockerfile's user; Kubernetes adds it to the groups of any other
GRACE_SECONDS = 120  # for an evicted worker to write a checkpoint in
LONGEST_NAME = 45  # of a host name's 63 letters, beside "-scheduler-0-0"
INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
RESTART_ATTEMPT = "metadata.labels['jobset.sigs.k8s.io/restart-attempt']"
FAILURES = "metadata.annotations['batch.kubernetes.io/job-index-failure-count']"

Manifest = Dict[str, Any]


@dataclasses.dataclass(frozen=True)
class KubernetesJob:
    """A job as its manifests are made of it.

    `resources` has a dict for each role, `claim` is the name of a volume claim and `mount` its folder in each pod.
    """

    name: str
    image: str
    flags: Sequence[str]
    token: str
    num_workers: int
    num_servers: int
    namespace: str
    resources: dict[str, dict[str, str]]
    max_restarts: int
    claim: str
    mount: str

    def counts(self) -> dict[str, int]:
        return {"scheduler": 1, "server": self.num_servers, "worker": self.num_workers}

    def labels(self, **more: str) -> dict[str, str]:
        return {"app.kubernetes.io/name": "mxtrain", "app.kubernetes.io/instance": self.name, **more}


def jobset_manifests(job: KubernetesJob) -> list[Manifest]:
    """The manifests of a JobSet: when a role dies all pods are made anew; an exit code that is final ends the set."""
    root, attempt_variable = f"{job.name}-scheduler-0-0.{job.name}", {GENERATION: _field(RESTART_ATTEMPT)}
    roles = []
    for role in job.counts():
        template = {"spec": {"backoffLimit": 0, **_indexed(job, role, root, attempt_variable)}}
        roles.append({"name": role, "replicas": 1, "template": template})
    spec = {
        "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True, "subdomain": job.name},
        "failurePolicy": {
            "maxRestarts": job.max_restarts,
            "restartStrategy": "BlockingRecreate",
            "rules": [
                {"name": "final", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]},
            ],
        },
        "replicatedJobs": roles,
    }
    return [
        *_secret_and_policy(job),
        _manifest(job, "jobset.x-k8s.io/v1alpha2", "JobSet", job.name, spec=spec),
    ]


def plain_manifests(job: KubernetesJob) -> list[Manifest]:
    """The manifests of plain Jobs, for clusters without the JobSet controller."""
    service = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,  # a pod finds the scheduler before that one is ready
        "selector": job.labels(),
        "ports": [{"name": "control", "port": PORT}],
    }
    jobs = []
    for role in job.counts():
        spec = {
            "backoffLimitPerIndex": job.max_restarts,
            "maxFailedIndexes": 0,
            **_indexed(job, role, f"{job.name}-scheduler-0.{job.name}", {RESTARTS: _field(FAILURES)}),
        }
        spec["template"]["spec"]["subdomain"] = job.name
        jobs.append(_manifest(job, "batch/v1", "Job", f"{job.name}-{role}", spec=spec))
    return [*_secret_and_policy(job), _manifest(job, "v1", "Service", job.name, spec=service), *jobs]


FORMS = {"jobset": jobset_manifests, "plain": plain_manifests}


def to_yaml(manifests: list[Manifest]) -> str:
    import yaml

    return str(yaml.safe_dump_all(manifests, sort_keys=False))


def _secret_and_policy(job: KubernetesJob) -> list[Manifest]:
    """The job's token, and a network policy: ps-lite trusts whoever reaches its ports, so only this job's pods do."""
    own = {"podSelector": {"matchLabels": job.labels()}}
    ingress = {**own, "policyTypes": ["Ingress"], "ingress": [{"from": [own]}]}
    return [
        _manifest(job, "v1", "Secret", job.name, stringData={"token": job.token}),
        _manifest(job, "networking.k8s.io/v1", "NetworkPolicy", job.name, spec=ingress),
    ]


def _manifest(job: KubernetesJob, version: str, resource_type: str, name: str, **content: Any) -> Manifest:
    metadata = {"name": name, "namespace": job.namespace, "labels": job.labels()}
    return {"apiVersion": version, "kind": resource_type, "metadata": metadata, **content}


def _indexed(job: KubernetesJob, role: str, root: str, attempt_variable: dict[str, Any]) -> dict[str, Any]:
    count = job.counts()[role]
    final = {"containerName": "fit", "operator": "In", "values": [*FINAL_CODES]}
    labels = job.labels(**{"app.kubernetes.io/component": role})
    return {
        "completionMode": "Indexed",
        "completions": count,
        "parallelism": count,
        "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": final}]},
        "template": {"metadata": {"labels": labels}, "spec": _pod(job, role, root, attempt_variable)},
    }


def _pod(job: KubernetesJob, role: str, root: str, attempt_variable: dict[str, Any]) -> dict[str, Any]:
    flags = [*DEFAULTS, *job.flags]
    # Loader processes pass batches through shared memory, of which a container has 64 MB by default.
    volumes: list[dict[str, Any]] = [{"name": "shared-memory", "emptyDir": {"medium": "Memory"}}]
    mounts = [{"name": "shared-memory", "mountPath": "/dev/shm"}]
    if job.claim:
        volumes.append({"name": "runs", "persistentVolumeClaim": {"claimName": job.claim}})
        mounts.append({"name": "runs", "mountPath": job.mount})
    wanted = job.resources[role]
    container = {
        "name": "fit",
        "image": job.image,
        "command": ["python", "-m", "mxtrain.fit"],
        "args": [flag.replace("$(", "$$(") for flag in flags],  # $(NAME) is Kubernetes' own
        "env": _environment(job, role, root, attempt_variable),
        **({"resources": {"requests": wanted, "limits": wanted}} if wanted else {}),
        "volumeMounts": mounts,
    }
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # A new volume is root's, and the image's user is not: this makes it the group's. Once, as it takes long.
        "securityContext": {"fsGroup": GROUP, "fsGroupChangePolicy": "OnRootMismatch"},
        "containers": [container],
        "volumes": volumes,
    }


def _environment(
    job: KubernetesJob, role: str, root: str, attempt_variable: dict[str, Any]
) -> list[dict[str, Any]]:
    values: dict[str, dict[str, Any]] = {
        "DMLC_ROLE": {"value": role},
        "DMLC_PS_ROOT_URI": {"value": root},
        "DMLC_PS_ROOT_PORT": {"value": str(PORT)},
        "DMLC_NUM_WORKER": {"value": str(job.num_workers)},
        "DMLC_NUM_SERVER": {"value": str(job.num_servers)},
        "DMLC_NODE_HOST": _field("status.podIP"),
        "POD_INDEX": _field(INDEX),
        "MXTRAIN_NODE": {"value": "scheduler" if role == "scheduler" else f"{role}-$(POD_INDEX)"},
        **attempt_variable,
        "MXTRAIN_JOB": {"valueFrom": {"secretKeyRef": {"name": job.name, "key": "token"}}},
    }
    return [{"name": name, **value} for name, value in values.items()]


def _field(path: str) -> dict[str, Any]:
    return {"valueFrom": {"fieldRef": {"fieldPath": path}}}


def render(argv: Sequence[str], flags: Sequence[str]) -> str:
    """The manifests that the launcher's flags `argv` ask for, as YAML; `flags` are those of fit."""
    options = parser().parse_args(argv)
    flags, layout = _fit_flags(options, flags)
    job = KubernetesJob(
        name=options.name,
        image=options.image,
        flags=flags,
        token=secrets.token_hex(16),
        num_workers=layout.num_workers,
        num_servers=layout.num_servers,
        namespace=options.namespace,
        resources={"scheduler": {}, "server": options.server_resources, "worker": options.worker_resources},
        max_restarts=options.max_restarts,
        claim=options.claim[0],
        mount=options.claim[1],
    )
    return to_yaml(FORMS[options.form](job))


def _fit_flags(options: argparse.Namespace, flags: Sequence[str]) -> tuple[Sequence[str], config.Layout]:
    """The flags of fit with a cluster's store, and the layout with the counts that they come to.

    A --config file that is in the image or on a volume can be read by the pods alone.
    """
    path = config.file_of(flags)
    if path is None or Path(path).is_file():
        run, flags = parse_fit_flags(with_counts(options, flags), program("k8s"))
        return flags, run.layout
    if not any(flag.split("=")[0] == "--kvstore" for flag in flags):
        logs.print_message(
            f"--config {path} is not here to be looked at: it has to say kvstore: dist_sync, or pods refuse it"
        )
    options.num_workers, options.num_servers = options.num_workers or 1, options.num_servers or 1
    return with_counts(options, flags), config.Layout(
        num_workers=options.num_workers, num_servers=options.num_servers
    )


def parser() -> Parser:
    parser = Parser(
        prog=program("k8s"),
        description="Print Kubernetes manifests of a job; flags of mxtrain.fit come after --.",
    )
    parser.add_argument("--image", required=True, help="a container image, as docker/Dockerfile makes")
    parser.add_argument(
        "--name", type=_name, default="mxtrain", help="of the job and of all that belongs to it"
    )
    parser.add_argument("--namespace", type=_name, default="default")
    parser.add_argument(
        "--form", choices=sorted(FORMS), default="jobset", help="plain: without the JobSet controller"
    )
    add_count_arguments(parser)
    for role in ("worker", "server"):
        parser.add_argument(
            f"--{role}-resources",
            type=_resources,
            default={},
            metavar="RESOURCES",
            help=f"what a {role} asks for and is held to, as in cpu=4,memory=16Gi,nvidia.com/gpu=1",
        )
    parser.add_argument(
        "--claim",
        type=_claim,
        default=("", ""),
        metavar="NAME:/PATH",
        help="a volume claim, mounted in each pod",
    )
    parser.add_argument("--max-restarts", type=int, default=3, help="of the whole group; plain: of each pod")
    return parser


def _name(text: str) -> str:
    if not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", text) or len(text) > LONGEST_NAME:
        raise argparse.ArgumentTypeError(
            f"'{text}' is no name in Kubernetes; give {LONGEST_NAME} small letters, digits and - at most"
        )
    return text


def _resources(text: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in text.split(",")]
    if not all(name and value for name, _, value in pairs):
        raise argparse.ArgumentTypeError(f"'{text}' names no amounts; give them as in cpu=4,memory=16Gi")
    return {name: value for name, _, value in pairs}


def _claim(text: str) -> tuple[str, str]:
    name, _, mount = text.partition(":")
    if not name or not mount.startswith("/"):
        raise argparse.ArgumentTypeError(f"'{text}' is no claim and folder; give them as in runs:/runs")
    return name, mount
