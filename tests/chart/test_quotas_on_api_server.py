"""A namespace whose quota or policy allows none of an object that the operator creates."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.builders.gpujobs import gpu_job
from support.control_plane.api_server import ApiServer
from support.control_plane.components import running_operator
from support.control_plane.scheduler_pairs import wait_until

PROFILED = {"workload": {"profile": "resnet50"}}


@pytest.fixture(scope="module", autouse=True)
def operator(server: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("operator")
    with running_operator(server, folder, resync_seconds=2.0) as log:
        yield log
    assert "Traceback" not in log.read_text()


@contextmanager
def quota(server: ApiServer, namespace: str, **counted: str) -> Iterator[None]:
    """Limit the objects of a new namespace; ``counted`` names them with ``_`` for ``.``."""
    assert server.create("/api/v1/namespaces", {"metadata": {"name": namespace}}).accepted
    hard = {f"count/{what.replace('_', '.')}": limit for what, limit in counted.items()}
    quotas = f"/api/v1/namespaces/{namespace}/resourcequotas"
    body = {"metadata": {"name": "none"}, "spec": {"hard": hard}}
    assert server.create(quotas, body).accepted
    # No controller manager runs here that would count what is used.
    status = {"hard": hard, "used": dict.fromkeys(hard, "0")}
    assert server.merge(f"{quotas}/none/status", {"status": status}).accepted
    yield
    assert server.delete(f"{quotas}/none").accepted


def conditions(server: ApiServer, namespace: str) -> dict[str, dict[str, Any]]:
    path = f"/apis/gputopo.io/v1alpha1/namespaces/{namespace}/gpujobs/train"
    status = server.get(path).body.get("status", {})
    return {each["type"]: each for each in status.get("conditions", [])}


def notes(server: ApiServer, namespace: str, reason: str) -> list[str]:
    events = server.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events").body["items"]
    return [each["note"] for each in events if each["reason"] == reason]


def reason_of(server: ApiServer, namespace: str, type_: str) -> str:
    return str(conditions(server, namespace).get(type_, {}).get("reason"))


def create_job(server: ApiServer, namespace: str, **spec: Any) -> None:
    job = gpu_job(**spec)
    job["metadata"]["namespace"] = namespace
    path = f"/apis/gputopo.io/v1alpha1/namespaces/{namespace}/gpujobs"
    response = server.create(path, job)
    assert response.accepted, response.message


def test_job_whose_profile_a_quota_forbids_runs_and_reports_it(server: ApiServer) -> None:
    profiles = "/apis/gputopo.io/v1alpha1/namespaces/no-profiles/gpuprofiles"
    with quota(server, "no-profiles", gpuprofiles_gputopo_io="0"):
        create_job(server, "no-profiles", **PROFILED)
        wait_until(
            lambda: reason_of(server, "no-profiles", "ProfileReady") == "ProfileNotCreated",
            seconds=30,
        )
        message = conditions(server, "no-profiles")["ProfileReady"]["message"]
        assert "GPUProfile resnet50 was not created" in message
        assert "exceeded quota: none" in message
        assert conditions(server, "no-profiles")["Accepted"]["status"] == "True"
        assert server.get("/apis/batch/v1/namespaces/no-profiles/jobs/train").accepted
        wait_until(lambda: bool(notes(server, "no-profiles", "ProfileNotCreated")), seconds=10)
    wait_until(
        lambda: reason_of(server, "no-profiles", "ProfileReady") == "ProfileCreated", seconds=30
    )
    assert server.get(f"{profiles}/resnet50").accepted


def test_job_that_a_quota_forbids_reports_it_until_it_is_allowed(server: ApiServer) -> None:
    with quota(server, "no-jobs", jobs_batch="0"):
        create_job(server, "no-jobs")
        wait_until(lambda: reason_of(server, "no-jobs", "Accepted") == "JobForbidden", seconds=30)
        message = conditions(server, "no-jobs")["Accepted"]["message"]
        assert "exceeded quota: none" in message
        wait_until(lambda: bool(notes(server, "no-jobs", "Refused")), seconds=10)
    wait_until(lambda: reason_of(server, "no-jobs", "Accepted") == "JobCreated", seconds=30)


def test_job_runs_where_a_quota_forbids_events(server: ApiServer) -> None:
    with quota(server, "no-events", events_events_k8s_io="0"):
        create_job(server, "no-events", **PROFILED)
        wait_until(lambda: reason_of(server, "no-events", "Accepted") == "JobCreated", seconds=30)
        assert reason_of(server, "no-events", "ProfileReady") == "ProfileCreated"


def test_job_that_a_policy_without_reason_rejects_starts_when_the_policy_is_deleted(
    server: ApiServer,
) -> None:
    assert server.create("/api/v1/namespaces", {"metadata": {"name": "team-jobs"}}).accepted
    group = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    rules = [
        {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"]}
        | {"resources": ["jobs"]}
    ]
    label = {"expression": "has(object.metadata.labels.team)", "message": "no label team"}
    spec = {"matchConstraints": {"resourceRules": rules}, "validations": [label]}
    assert server.create(group, {"metadata": {"name": "teams"}, "spec": spec}).accepted
    selector = {"matchLabels": {"kubernetes.io/metadata.name": "team-jobs"}}
    bound = {
        "policyName": "teams",
        "validationActions": ["Deny"],
        "matchResources": {"namespaceSelector": selector},
    }
    bindings = group.replace("policies", "policybindings")
    assert server.create(bindings, {"metadata": {"name": "teams"}, "spec": bound}).accepted
    jobs = "/apis/batch/v1/namespaces/team-jobs/jobs?dryRun=All"
    container = {"name": "main", "image": "busybox"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    probe = {"metadata": {"name": "probe"}, "spec": {"template": template}}
    wait_until(lambda: server.request("POST", jobs, probe).status == 422, seconds=30)
    create_job(server, "team-jobs")
    wait_until(lambda: reason_of(server, "team-jobs", "Accepted") == "JobForbidden", seconds=30)
    assert "no label team" in conditions(server, "team-jobs")["Accepted"]["message"]
    assert server.delete(f"{bindings}/teams").accepted
    wait_until(lambda: reason_of(server, "team-jobs", "Accepted") == "JobCreated", seconds=30)
