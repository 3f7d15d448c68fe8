"""The operator measures pods and links with its own rights, on a real API server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gputopo.api.link_runs import LinkRunResult
from gputopo.api.names import (
    LINK_RESULT_ANNOTATION,
    PROFILING_ANNOTATION,
    PROFILING_LABEL,
    PROFILING_STATE_ANNOTATION,
    RESOURCES_ANNOTATION,
    RESOURCES_MAX_ANNOTATION,
    RESOURCES_MODE_ANNOTATION,
    TUNED_LABEL,
)
from gputopo.api.profiling import ProfilingState
from support.builders.gpujobs import gpu_job
from support.control_plane.api_server import JOBS, PODS, ApiServer, service_account
from support.control_plane.components import running_operator
from support.control_plane.measured_pods import (
    limit_of,
    put_measured_pod,
    take_samples,
    uid_of,
    wait_for_limit,
)
from support.control_plane.scheduler_pairs import wait_until
from support.profiling.cluster import measured_container

BATCH = "/apis/batch/v1/namespaces/default/jobs"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
OPERATOR = service_account("gputopo-operator")
ALL = dict.fromkeys(range(500, 8500, 500), 10.0)


@pytest.fixture
def operator(nodes: ApiServer, tmp_path: Path) -> Iterator[ApiServer]:
    with running_operator(nodes, tmp_path, resync_seconds=2.0):
        yield nodes


def state_of(server: ApiServer, name: str) -> ProfilingState | None:
    metadata: dict[str, Any] = server.get(f"{PODS}/{name}").body["metadata"]
    text = metadata["annotations"].get(PROFILING_STATE_ANNOTATION)
    return None if text is None else ProfilingState.model_validate_json(text)


def result_of(server: ApiServer, name: str) -> str | None:
    state = state_of(server, name)
    return state.result if state is not None and state.restored else None


@pytest.fixture
def pods(nodes: ApiServer) -> Iterator[ApiServer]:
    """Two running pods; only the first one requests a measurement."""
    for name in ("requested", "other"):
        put_measured_pod(nodes, name, "4")
    others = {"labels": {"team": "vision"}, "annotations": {"note": "vision"}}
    assert nodes.merge(f"{PODS}/requested", {"metadata": others}).accepted
    none = {"annotations": {PROFILING_ANNOTATION: None}}
    assert nodes.merge(f"{PODS}/other", {"metadata": none}).accepted
    yield nodes
    for name in ("requested", "other"):
        nodes.request("DELETE", f"{PODS}/{name}")


@pytest.mark.parametrize(("name", "requested"), [("guaranteed", "4"), ("burstable", "1")])
def test_pod_of_any_qos_class_is_resized_and_restored(
    operator: ApiServer, name: str, requested: str
) -> None:
    put_measured_pod(operator, name, "4", requested)
    before = operator.get(f"{PODS}/{name}").body["spec"]
    take_samples(operator, name, {4000: 10.0})
    wait_for_limit(operator, name, "8")
    metadata = operator.get(f"{PODS}/{name}").body["metadata"]
    assert metadata["labels"][PROFILING_LABEL] == "true"
    take_samples(operator, name, {4000: 10.0, 8000: 10.5})
    wait_for_limit(operator, name, {"4": "2", "1": "4500m"}[requested])
    take_samples(operator, name, ALL)
    wait_until(lambda: result_of(operator, name) == "Done", seconds=60)
    after = operator.get(f"{PODS}/{name}").body
    assert after["spec"] == before
    assert PROFILING_LABEL not in after["metadata"].get("labels", {})
    operator.request("DELETE", f"{PODS}/{name}")


def test_quota_that_rejects_more_cpus_limits_the_measurement(operator: ApiServer) -> None:
    put_measured_pod(operator, "limited", "4")
    used = {"spec": {"hard": {"limits.cpu": "6"}}}
    quota = operator.create(QUOTAS, {"metadata": {"name": "cpus"}, **used})
    assert quota.accepted, quota.message
    # No controller runs here that would count the used resources.
    status = {"hard": {"limits.cpu": "6"}, "used": {"limits.cpu": "4"}}
    assert operator.merge(f"{QUOTAS}/cpus/status", {"status": status}).accepted
    take_samples(operator, "limited", {4000: 10.0})
    wait_for_limit(operator, "limited", "2")
    state = state_of(operator, "limited")
    assert state is not None
    assert state.most_milli_cpu == 4000
    operator.request("DELETE", f"{QUOTAS}/cpus")
    take_samples(operator, "limited", ALL)
    wait_until(lambda: result_of(operator, "limited") == "Done", seconds=60)
    assert limit_of(operator, "limited") == "4"
    assert uid_of(operator, "limited") == state.uid


def test_short_run_is_accepted_and_ended_by_the_operator(operator: ApiServer) -> None:
    spec: dict[str, Any] = {"workload": {"profile": "resnet50"}}
    spec["profiling"] = {"measure": ["Links"]}
    response = operator.create(JOBS, gpu_job("linked", **spec))
    assert response.accepted, response.message
    wait_until(lambda: operator.get(f"{BATCH}/linked-links-best").accepted, seconds=60)
    assert not operator.get(f"{BATCH}/linked").accepted
    suspend = {"spec": {"suspend": True}}
    assert operator.merge(f"{JOBS}/linked", suspend).accepted
    wait_until(lambda: operator.get(f"{BATCH}/linked").accepted, seconds=60)
    run = operator.get(f"{BATCH}/linked-links-best").body
    assert run["spec"]["suspend"] is True
    result = LinkRunResult.parse(run["metadata"]["annotations"][LINK_RESULT_ANNOTATION])
    assert result is not None
    assert result.result == "Stopped"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metadata": {"annotations": {"a": "b"}}}, "metadata.annotations: "),
        ({"metadata": {"annotations": {"note": None}}}, "metadata.annotations: "),
        ({"metadata": {"labels": {"a": "b"}}}, "metadata.labels: "),
        ({"metadata": {"labels": {"team": None}}}, "metadata.labels: "),
        ({"metadata": {"finalizers": ["a/b"]}}, "metadata.finalizers: "),
        ({"status": {"phase": "Failed"}}, "status: "),
    ],
)
def test_operator_changes_only_its_own_annotation_and_label(
    pods: ApiServer, change: dict[str, Any], message: str
) -> None:
    denied = pods.merge(f"{PODS}/requested/status", change, OPERATOR)
    assert not denied.accepted
    assert message in denied.message


def test_operator_changes_only_pods_that_request_a_measurement(pods: ApiServer) -> None:
    state = {"metadata": {"annotations": {PROFILING_STATE_ANNOTATION: "{}"}}}
    state["metadata"]["labels"] = {PROFILING_LABEL: "true"}
    assert pods.merge(f"{PODS}/requested/status", state, OPERATOR).accepted
    for subresource in ("status", "resize"):
        denied = pods.merge(f"{PODS}/other/{subresource}", state, OPERATOR)
        assert not denied.accepted
        assert (
            "annotations[gputopo.io/profiling]: missing, and gputopo.io/resources-mode is Fi"
            in (denied.message)
        )
    unrelated = {"metadata": {"labels": {"team": "vision"}}}
    assert pods.merge(f"{PODS}/other/status", unrelated).accepted


@pytest.mark.parametrize("mode", ["Auto", "Proportional", "Fixed"])
def test_operator_changes_pods_that_it_should_resize(nodes: ApiServer, mode: str) -> None:
    metadata: dict[str, Any] = {"name": "tuned", "annotations": {RESOURCES_MODE_ANNOTATION: mode}}
    if mode != "Fixed":
        # Kubernetes before 1.36 has no policy that sets the label.
        metadata["labels"] = {TUNED_LABEL: "true"}
    container = measured_container(cpu="4")
    spec = {"schedulerName": "gputopo", "containers": [container]}
    assert nodes.create(PODS, {"metadata": metadata, "spec": spec}).accepted
    try:
        for annotation in (RESOURCES_ANNOTATION, RESOURCES_MAX_ANNOTATION):
            record = {"metadata": {"annotations": {annotation: "cpu=8"}}}
            response = nodes.merge(f"{PODS}/tuned/status", record, OPERATOR)
            assert response.accepted is (mode != "Fixed"), response.message
        other = {"metadata": {"annotations": {RESOURCES_MODE_ANNOTATION: "Auto", "a": "b"}}}
        assert not nodes.merge(f"{PODS}/tuned/status", other, OPERATOR).accepted
    finally:
        nodes.delete(f"{PODS}/tuned")


def test_operator_may_restore_a_pod_whose_request_was_removed(pods: ApiServer) -> None:
    state = {"metadata": {"annotations": {PROFILING_STATE_ANNOTATION: "{}"}}}
    assert pods.merge(f"{PODS}/requested/status", state, OPERATOR).accepted
    removed = {"metadata": {"annotations": {PROFILING_ANNOTATION: None}}}
    assert pods.merge(f"{PODS}/requested", removed).accepted
    ended = {"annotations": {PROFILING_STATE_ANNOTATION: None}, "labels": {PROFILING_LABEL: None}}
    assert pods.merge(f"{PODS}/requested/status", {"metadata": ended}, OPERATOR).accepted
