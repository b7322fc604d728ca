"""Kubernetes manifests of a job: a JobSet, or a Service and plain Indexed Jobs.

Owns what Kubernetes has to know about a job; nothing here talks to a cluster, `kubectl apply -f -` does. Each role
is an Indexed Job, each pod one process. With a JobSet the whole group restarts as one and knows its attempt's number;
with plain Jobs each pod restarts by itself and the rendezvous brings them together. The manifests are the templates in
`mxtrain/launch/manifests`; this module has the values that go into them.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import re
import secrets
import string
from pathlib import Path
from typing import Any, Dict, Mapping, Sequence

from mxtrain import config
from mxtrain.config.components import stores
from mxtrain.config.flags.arguments import Parser
from mxtrain.launch import logs
from mxtrain.launch.exits import FINAL_CODES
from mxtrain.launch.fit_flags import add_count_arguments, parse_fit_flags, program, with_counts
from mxtrain.launch.plan import GENERATION, RESTARTS

TEMPLATES = Path(__file__).parent / "manifests"
PORT = 9091
# Nodes have to come and images to be pulled; the flags of the job win.
DEFAULTS = ("--start-timeout", "1800")
LONGEST_NAME = 45  # of a host name's 63 letters, beside "-scheduler-0-0"

Values = Dict[str, Any]  # of a template's names; None leaves out the entry that it would be


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
        """Return how many processes each role has; a role that has none is left out."""
        found = {"scheduler": 1, "server": self.num_servers, "worker": self.num_workers}
        return {role: count for role, count in found.items() if count}

    def labels(self, **more: str) -> dict[str, str]:
        return {"app.kubernetes.io/name": "mxtrain", "app.kubernetes.io/instance": self.name, **more}


def manifests(job: KubernetesJob, form: str) -> list[Any]:
    """Return the documents of a job in a form, as plain data."""
    values = {
        "name": job.name,
        "namespace": job.namespace,
        "labels": job.labels(),
        "token": job.token,
        "max_restarts": job.max_restarts,
        "port": PORT,
    }
    for role in job.counts():
        (values[role],) = filled("role", {**values, **_role_values(job, role), **FORM_VALUES[form](job)})
    return [*filled("access", values), *_with_jobs(filled(form, {"server": None, **values}))]


def _with_jobs(documents: list[Any]) -> list[Any]:
    """Return the documents without those of a role that the job does not have, whose description is empty."""
    found = [each for each in documents if each["kind"] != "Job" or "spec" in each]
    for jobset in (each["spec"] for each in found if each["kind"] == "JobSet"):
        jobset["replicatedJobs"] = [each for each in jobset["replicatedJobs"] if "spec" in each["template"]]
    return found


def filled(template: str, values: Values) -> list[Any]:
    """Return the documents of a template with `values` in the places of their names.

    The template is parsed first, so that a value is never read as YAML, whatever is in it.
    """
    import yaml

    text = (TEMPLATES / f"{template}.yaml").read_text(encoding="utf-8")
    return [_fill(document, values) for document in yaml.safe_load_all(text)]


def _fill(part: Any, values: Mapping[str, Any]) -> Any:
    """Return a part of a template with its names replaced: `$name` alone by the value itself, in a text by its text."""
    if isinstance(part, dict):
        entries = {key: _fill(value, values) for key, value in part.items()}
        return {key: value for key, value in entries.items() if value is not None}
    if isinstance(part, list):
        return [value for value in (_fill(item, values) for item in part) if value is not None]
    if isinstance(part, str):
        alone = re.fullmatch(r"\$(\w+)", part)
        # A copy, as YAML writes what is there twice as an anchor and a reference to it.
        return copy.deepcopy(values[alone[1]]) if alone else string.Template(part).substitute(values)
    return part


def _role_values(job: KubernetesJob, role: str) -> Values:
    count, resources = job.counts()[role], job.resources[role]
    return {
        "role": role,
        "count": count,
        "role_labels": job.labels(**{"app.kubernetes.io/component": role}),
        "final_codes": [*FINAL_CODES],
        "image": job.image,
        # $(NAME) is Kubernetes' own.
        "args": [flag.replace("$(", "$$(") for flag in (*DEFAULTS, *job.flags)],
        "root_port": str(PORT),
        "num_workers": str(job.num_workers),
        "num_servers": str(job.num_servers),
        "node": "scheduler" if role == "scheduler" else f"{role}-$(POD_INDEX)",
        "resources": {"requests": resources, "limits": {**resources}} if resources else None,
        **_claim_values(job),
    }


def _claim_values(job: KubernetesJob) -> Values:
    if not job.claim:
        return {"claim_mount": None, "claim_volume": None}
    return {
        "claim_mount": {"name": "runs", "mountPath": job.mount},
        "claim_volume": {"name": "runs", "persistentVolumeClaim": {"claimName": job.claim}},
    }


def _jobset_values(job: KubernetesJob) -> Values:
    return {
        "backoff_limit": 0,
        "restarts_of_pod": None,
        "failed_pods": None,
        "subdomain": None,
        "root": f"{job.name}-scheduler-0-0.{job.name}",
        "attempt_variable": GENERATION,
        "attempt_field": "metadata.labels['jobset.sigs.k8s.io/restart-attempt']",
    }


def _plain_values(job: KubernetesJob) -> Values:
    return {
        "backoff_limit": None,
        "restarts_of_pod": job.max_restarts,
        "failed_pods": 0,
        "subdomain": job.name,
        "root": f"{job.name}-scheduler-0.{job.name}",
        "attempt_variable": RESTARTS,
        "attempt_field": "metadata.annotations['batch.kubernetes.io/job-index-failure-count']",
    }


FORM_VALUES = {"jobset": _jobset_values, "plain": _plain_values}


def render(argv: Sequence[str], flags: Sequence[str]) -> str:
    """The manifests that the launcher's flags `argv` ask for, as YAML; `flags` are those of fit."""
    import yaml

    options = parser().parse_args(argv)
    flags, layout = _fit_flags(options, flags)
    job = KubernetesJob(
        name=options.name,
        image=options.image,
        flags=flags,
        token=secrets.token_hex(16),
        num_workers=layout.num_workers,
        num_servers=stores.num_servers(layout.kvstore, layout.num_servers),
        namespace=options.namespace,
        resources={"scheduler": {}, "server": options.server_resources, "worker": options.worker_resources},
        max_restarts=options.max_restarts,
        claim=options.claim[0],
        mount=options.claim[1],
    )
    return str(yaml.safe_dump_all(manifests(job, options.form), sort_keys=False))


def _fit_flags(options: argparse.Namespace, flags: Sequence[str]) -> tuple[Sequence[str], config.Layout]:
    """The flags of fit with a cluster's store, and the layout with the counts that they come to.

    A --config file that is in the image or on a volume can be read by the pods alone.
    """
    path = config.file_of(flags)
    if path is None or Path(path).is_file():
        run, flags = parse_fit_flags(with_counts(options, flags), program("k8s"))
        return flags, run.layout
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--kvstore", nargs="?")
    store = finder.parse_known_args(flags)[0].kvstore
    if store is None:
        logs.print_message(
            f"--config {path} is not here to be looked at: it has to say kvstore: dist_sync, or pods refuse it"
        )
    options.num_workers = options.num_workers or 1
    if store is None or stores.has_servers(store):
        options.num_servers = options.num_servers or 1
    return with_counts(options, flags), config.Layout(
        kvstore=store or "dist_sync",
        num_workers=options.num_workers,
        num_servers=options.num_servers or config.Layout.num_servers,
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
        "--form", choices=FORM_VALUES, default="jobset", help="plain: without the JobSet controller"
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
