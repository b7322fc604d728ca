"""Kubernetes manifests: valid by the published schemas; restarts, names and secrets are as a job needs them."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path
from typing import Any, Callable

import pytest
import yaml

from mxtrain.core.errors import UsageError
from mxtrain.launch import k8s
from tests.support.breadth import slow_cases

ROOT = Path(__file__).resolve().parents[3]
IMAGE = ["--image", "registry.example/mxtrain:1"]
WANTED = [*IMAGE, "--name", "digits", "--namespace", "team", "-n", "3", "-s", "2", "--claim", "runs:/runs"]
RESOURCES = ["--worker-resources", "cpu=4,memory=16Gi,nvidia.com/gpu=1", "--server-resources", "cpu=2"]
FLAGS = ["--kvstore", "dist_sync", "--train", "/runs/train.rec", "--out", "/runs/a"]
OLDEST, NEWEST = "1.29", "1.36"  # 1.29 is the first whose Jobs count failures by index without being asked to


def manifests(*arguments: str, flags: list[str] = FLAGS) -> list[dict[str, Any]]:
    return list(yaml.load_all(k8s.render(arguments, flags), yaml.CSafeLoader))


def of_kind(kind: str, documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [document for document in documents if document["kind"] == kind]


def jobs(form: str, wanted: list[str] = WANTED, flags: list[str] = FLAGS) -> dict[str, dict[str, Any]]:
    """The spec of each role's Job."""
    documents = manifests(*wanted, *RESOURCES, "--form", form, flags=flags)
    if form == "plain":
        return {job["metadata"]["name"].split("-")[1]: job["spec"] for job in of_kind("Job", documents)}
    (jobset,) = of_kind("JobSet", documents)
    return {job["name"]: job["template"]["spec"] for job in jobset["spec"]["replicatedJobs"]}


def container(spec: dict[str, Any]) -> dict[str, Any]:
    (only,) = spec["template"]["spec"]["containers"]
    return only


def environment(spec: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container(spec)["env"]}


@pytest.fixture(scope="module")
def validate() -> Callable[[dict[str, Any], str], None]:
    published = pytest.importorskip("kubernetes_validate")
    return lambda document, version: published.validate(document, version, strict=True)


@pytest.mark.parametrize("version", [NEWEST, *slow_cases(OLDEST)])
@pytest.mark.parametrize("form", ["jobset", "plain"])
@pytest.mark.parametrize("more", [[], RESOURCES], ids=["bare", "resources"])
def test_every_document_is_valid(validate: Any, form: str, version: str, more: list[str]) -> None:
    for document in manifests(*WANTED, *more, "--form", form):
        if document["kind"] == "JobSet":  # the Jobs that its controller makes of it
            for role in document["spec"]["replicatedJobs"]:
                job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, **role["template"]}
                validate(job, version)
        else:
            validate(document, version)


def test_the_schemas_refuse_what_is_wrong(validate: Any) -> None:
    (job, *_) = of_kind("Job", manifests(*WANTED, "--form", "plain"))
    job["spec"]["paralellism"] = 3
    with pytest.raises(Exception, match="paralellism"):
        validate(job, NEWEST)


def test_the_jobset_is_valid() -> None:
    """The published model takes every field and gives the same document back: it knows them all."""
    models = pytest.importorskip("kubeflow_trainer_api.models")
    (document,) = of_kind("JobSet", manifests(*WANTED, *RESOURCES))
    model = models.JobsetV1alpha2JobSet.from_dict(document)
    assert model.to_dict() == document
    document["spec"]["failurePolicy"]["maxRestart"] = 3
    assert models.JobsetV1alpha2JobSet.from_dict(document).to_dict() != document


@pytest.mark.parametrize("form", ["jobset", "plain"])
def test_each_role_has_its_pods_and_the_same_command(form: str) -> None:
    specs = jobs(form)
    assert {role: spec["completions"] for role, spec in specs.items()} == {
        "scheduler": 1,
        "server": 2,
        "worker": 3,
    }
    for role, spec in specs.items():
        assert spec["parallelism"] == spec["completions"]
        assert spec["completionMode"] == "Indexed"
        found = environment(spec)
        assert found["DMLC_ROLE"] == role
        assert (found["DMLC_NUM_WORKER"], found["DMLC_NUM_SERVER"]) == ("3", "2")
        assert container(spec)["command"] + container(spec)["args"] == [
            *["python", "-m", "mxtrain.fit", "--start-timeout", "1800"],
            *FLAGS,
            *["--num-workers", "3", "--num-servers", "2"],
        ]


WITHOUT_SERVERS = [*IMAGE, "--name", "digits", "--namespace", "team", "-n", "3", "--claim", "runs:/runs"]
ALLREDUCE = ["--kvstore", "allreduce", *FLAGS[2:]]


@pytest.mark.parametrize("form", ["jobset", "plain"])
def test_a_job_without_servers_has_no_pods_for_them(validate: Any, form: str) -> None:
    specs = jobs(form, WITHOUT_SERVERS, ALLREDUCE)
    assert {role: spec["completions"] for role, spec in specs.items()} == {"scheduler": 1, "worker": 3}
    for spec in specs.values():
        assert environment(spec)["DMLC_NUM_SERVER"] == "0"
        assert "--num-servers" not in container(spec)["args"]
        validate({"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "spec": spec}, NEWEST)


def arguments(*flags: str, wanted: list[str] = WANTED) -> list[str]:
    """The arguments of a worker's pod."""
    (jobset,) = of_kind("JobSet", manifests(*wanted, flags=list(flags)))
    found: list[str] = container(jobset["spec"]["replicatedJobs"][2]["template"]["spec"])["args"]
    return found


@pytest.mark.parametrize("form", ["jobset", "plain"])
def test_the_images_user_may_write_to_the_volume(form: str) -> None:
    (user,) = re.findall(r"^USER (\d+)$", (ROOT / "docker" / "Dockerfile").read_text(), re.MULTILINE)
    (uid,) = re.findall(r"useradd --uid (\d+)", (ROOT / "docker" / "Dockerfile").read_text())
    assert user == uid, "its group has the same number"
    for spec in jobs(form).values():
        pod = spec["template"]["spec"]
        assert pod["securityContext"]["fsGroup"] == int(user)
        assert {"name": "runs", "mountPath": "/runs"} in container(spec)["volumeMounts"]


def test_a_clusters_store_is_the_default() -> None:
    assert "--kvstore dist_sync" in " ".join(arguments("--train", "t.rec"))
    assert arguments("--kvstore=dist_async").count("--kvstore") == 0
    with pytest.raises(UsageError, match="--kvstore device has no roles"):
        arguments("--kvstore", "device")


def test_a_file_without_a_store_gets_a_clusters(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("train: t.rec\nnum_workers: 3\n")
    assert arguments("--config", str(path))[-2:] == ["--kvstore", "dist_sync"]
    (job,) = of_kind("JobSet", manifests(*IMAGE, flags=["--config", str(path)]))
    worker = job["spec"]["replicatedJobs"][2]["template"]["spec"]
    assert (worker["completions"], environment(worker)["DMLC_NUM_WORKER"]) == (3, "3")
    path.write_text("train: t.rec\nkvstore: dist_async\n")
    assert arguments("--config", str(path)).count("--kvstore") == 0


def test_a_file_that_only_the_pods_have_is_left_to_them() -> None:
    ps_sh = [str(ROOT / "launch" / "k8s"), *IMAGE, "--", "--config", "/runs/run.yaml"]
    done = subprocess.run(ps_sh, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "kvstore" not in done.stdout
    assert "--config /runs/run.yaml is not here to be looked at" in done.stderr
    (job,) = of_kind("JobSet", list(yaml.safe_load_all(done.stdout)))
    found = container(job["spec"]["replicatedJobs"][2]["template"]["spec"])["args"]
    assert found[-4:] == ["--num-workers", "1", "--num-servers", "1"]
    without = jobs("jobset", IMAGE, ["--config", "/runs/run.yaml", "--kvstore", "allreduce"])
    assert [*without] == ["scheduler", "worker"]
    assert container(without["worker"])["args"][-4:] == ["--kvstore", "allreduce", "--num-workers", "1"]


def test_pods_find_the_scheduler_by_the_name_it_gets() -> None:
    for spec in jobs("jobset").values():  # jobset-role-job-pod.subdomain
        assert environment(spec)["DMLC_PS_ROOT_URI"] == "digits-scheduler-0-0.digits"
    documents = manifests(*WANTED, "--form", "plain")
    (service,) = of_kind("Service", documents)
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    for job in of_kind("Job", documents):  # job-pod.subdomain, where the subdomain is the Service
        assert environment(job["spec"])["DMLC_PS_ROOT_URI"] == "digits-scheduler-0.digits"
        assert job["spec"]["template"]["spec"]["subdomain"] == service["metadata"]["name"]
        assert service["spec"]["selector"].items() <= job["spec"]["template"]["metadata"]["labels"].items()


def test_a_node_is_named_by_its_index_which_is_known_before_its_name() -> None:
    for form in ("jobset", "plain"):
        names = [each["name"] for each in container(jobs(form)["worker"])["env"]]
        assert names.index("POD_INDEX") < names.index("MXTRAIN_NODE")
        assert environment(jobs(form)["worker"])["MXTRAIN_NODE"] == "worker-$(POD_INDEX)"
        assert environment(jobs(form)["scheduler"])["MXTRAIN_NODE"] == "scheduler"


def test_final_exit_codes_end_the_job_and_all_others_restart_the_group() -> None:
    (jobset,) = of_kind("JobSet", manifests(*WANTED, "--max-restarts", "7"))
    policy = jobset["spec"]["failurePolicy"]
    assert policy["maxRestarts"] == 7
    (rule,) = policy["rules"]
    assert (rule["action"], rule["onJobFailureReasons"]) == ("FailJobSet", ["PodFailurePolicy"])
    for spec in [*jobs("jobset").values(), *jobs("plain").values()]:
        (rule,) = spec["podFailurePolicy"]["rules"]
        assert (rule["action"], rule["onExitCodes"]["values"]) == ("FailJob", [2, 3, 4])
        assert rule["onExitCodes"]["containerName"] == container(spec)["name"]
        assert spec["template"]["spec"]["restartPolicy"] == "Never"
    assert {spec["backoffLimit"] for spec in jobs("jobset").values()} == {0}
    assert {spec["backoffLimitPerIndex"] for spec in jobs("plain").values()} == {3}


def test_the_generation_is_the_jobsets_restart_counter() -> None:
    label = {"fieldRef": {"fieldPath": "metadata.labels['jobset.sigs.k8s.io/restart-attempt']"}}
    assert environment(jobs("jobset")["worker"])["MXTRAIN_GENERATION"] == label


def test_without_a_jobset_a_pod_knows_how_often_it_has_failed() -> None:
    count = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-index-failure-count']"}}
    assert environment(jobs("plain")["worker"])["MXTRAIN_RESTARTS"] == count


@pytest.mark.parametrize("form", ["jobset", "plain"])
def test_the_token_is_a_secret_and_new_each_time(form: str) -> None:
    texts = [k8s.render([*WANTED, "--form", form], FLAGS) for _ in range(2)]
    tokens = []
    for text in texts:
        (secret,) = of_kind("Secret", list(yaml.safe_load_all(text)))
        tokens.append(secret["stringData"]["token"])
        assert text.count(tokens[-1]) == 1
    assert tokens[0] != tokens[1] and len(tokens[0]) >= 32
    key = {"secretKeyRef": {"name": "digits", "key": "token"}}
    assert environment(jobs(form)["server"])["MXTRAIN_JOB"] == key


@pytest.mark.parametrize("form", ["jobset", "plain"])
def test_only_pods_of_the_job_reach_its_ports(form: str) -> None:
    (wall,) = of_kind("NetworkPolicy", manifests(*WANTED, "--form", form))
    own = wall["spec"]["podSelector"]["matchLabels"]
    assert wall["spec"]["policyTypes"] == ["Ingress"]
    assert wall["spec"]["ingress"] == [
        {"from": [{"podSelector": {"matchLabels": own}}], "ports": [{"protocol": "TCP", "port": 9091}]}
    ]
    for spec in jobs(form).values():
        assert own.items() <= spec["template"]["metadata"]["labels"].items()


def test_resources_and_the_claim_reach_the_pods() -> None:
    worker = container(jobs("jobset")["worker"])
    assert (
        worker["resources"]["limits"]
        == worker["resources"]["requests"]
        == {
            "cpu": "4",
            "memory": "16Gi",
            "nvidia.com/gpu": "1",
        }
    )
    assert {"name": "runs", "mountPath": "/runs"} in worker["volumeMounts"]
    assert "resources" not in container(jobs("jobset")["scheduler"])


def test_a_flag_that_looks_like_a_variable_stays_itself() -> None:
    (jobset,) = of_kind("JobSet", manifests(*WANTED, flags=["--out", "/runs/$(HOSTNAME)"]))
    spec = jobset["spec"]["replicatedJobs"][2]["template"]["spec"]
    assert "/runs/$$(HOSTNAME)" in container(spec)["args"]


@pytest.mark.parametrize("form", ["jobset", "plain"])
def test_a_reader_follows_no_references(form: str) -> None:
    assert "&id" not in k8s.render([*WANTED, *RESOURCES, "--form", form], FLAGS)


HOSTILE = (
    *(
        "a: b",
        "- x\n- y",
        "line\n---\nkind: Secret",
        '"',
        "'",
        "{a: 1}",
        "# none",
        "*x",
        "&y",
        "!!python/none",
    ),
    *("$token", "${name}", "$", "$$", "\t", "\x85", "é😀", "null", "yes", "0x10", "%YAML", "{{x}}"),
)


def with_value(part: Any, value: str) -> Any:
    """Return a document with `value` wherever a text has PLACE, and without the token, which is always another."""
    if isinstance(part, dict):
        return {key: with_value(each, value) for key, each in part.items() if key != "token"}
    if isinstance(part, list):
        return [with_value(each, value) for each in part]
    return part.replace("PLACE", value) if isinstance(part, str) else part


@functools.lru_cache(maxsize=None)
def rendered(form: str, text: str) -> list[dict[str, Any]]:
    pods = ("--claim", f"runs:/{text}", "--worker-resources", f"cpu={text}")
    return manifests("--image", text, "--form", form, *pods, flags=[*FLAGS, "--val", text])


@pytest.mark.parametrize("form", ["jobset", *slow_cases("plain")])
@pytest.mark.parametrize("value", HOSTILE)
def test_a_value_is_neither_yaml_nor_template(form: str, value: str) -> None:
    assert with_value(rendered(form, value), value) == with_value(rendered(form, "PLACE"), value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--name", "Digits"], "--name.*'Digits' is no name in Kubernetes"),
        (["--name", "d" * 46], "45 small letters"),
        (["-n", "0"], "give 1 or more"),
        (["--claim", "runs"], "runs:/runs"),
        (["--worker-resources", "4"], "cpu=4,memory=16Gi"),
    ],
)
def test_wrong_arguments_are_refused(wrong: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        k8s.render([*IMAGE, *wrong], FLAGS)
