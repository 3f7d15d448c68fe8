"""The admission policy of the annotations with which pods are resized, on a real API server."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from gputopo.api.names import (
    RESOURCES_ANNOTATION,
    RESOURCES_MAX_ANNOTATION,
    RESOURCES_MODE_ANNOTATION,
    TUNED_LABEL,
)
from support.control_plane.api_server import (
    ADMIN,
    PODS,
    ApiResponse,
    ApiServer,
    User,
    service_account,
)
from support.control_plane.scheduler_pairs import wait_until
from support.features import MUTATING_POLICIES

MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
OPERATOR = service_account("gputopo-operator")
EXTENDER = service_account("gputopo-extender")
KUBELET = User("system:node:n1", ("system:nodes",))
AUTO = {RESOURCES_MODE_ANNOTATION: "Auto", RESOURCES_MAX_ANNOTATION: "cpu=8,memory=64Gi"}
RECORD = '{"v":1}'
FORBIDDEN = 403
_number = itertools.count()


def create(
    server: ApiServer,
    annotations: dict[str, str],
    user: User = ADMIN,
    labels: dict[str, str] | None = None,
) -> ApiResponse:
    name = f"sized-{next(_number)}"
    mode = annotations.get(RESOURCES_MODE_ANNOTATION, "Fixed")
    if labels is None and mode != "Fixed" and not server.serves(MUTATING_POLICIES):
        labels = {TUNED_LABEL: "true"}  # no policy adds it
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations, "labels": labels},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    }
    return server.create(PODS, pod, user)


@pytest.fixture
def sized(server: ApiServer) -> Iterator[str]:
    """Path of a pod with the mode Auto, which the operator has resized."""
    created = create(server, AUTO)
    assert created.accepted, created.message
    path = f"{PODS}/{created.body['metadata']['name']}"
    written = annotate(server, f"{path}/status", {RESOURCES_ANNOTATION: RECORD}, OPERATOR)
    assert written.accepted, written.message
    yield path
    server.delete(path)


def annotate(
    server: ApiServer, path: str, annotations: dict[str, str | None], user: User = ADMIN
) -> ApiResponse:
    return server.merge(path, {"metadata": {"annotations": annotations}}, user)


def annotations_of(server: ApiServer, path: str) -> dict[str, str]:
    annotations: dict[str, str] = server.get(path).body["metadata"]["annotations"]
    return annotations


def test_operator_stores_its_record_and_changes_the_largest_amounts(
    server: ApiServer, sized: str
) -> None:
    changed = {RESOURCES_ANNOTATION: '{"v":1,"pinned":true}', RESOURCES_MAX_ANNOTATION: "cpu=4"}
    response = annotate(server, f"{sized}/status", {**changed}, OPERATOR)
    assert response.accepted, response.message
    assert annotations_of(server, sized) == AUTO | changed


@pytest.mark.parametrize("subresource", ["", "/status"])
@pytest.mark.parametrize("value", ["other", "", None], ids=["change", "empty", "remove"])
@pytest.mark.parametrize("user", [ADMIN, KUBELET], ids=["administrator", "kubelet"])
def test_other_users_cannot_change_the_record(
    server: ApiServer, sized: str, subresource: str, value: str | None, user: User
) -> None:
    response = annotate(server, sized + subresource, {RESOURCES_ANNOTATION: value}, user)
    assert response.status == FORBIDDEN
    if user is ADMIN:
        assert f"metadata.annotations[{RESOURCES_ANNOTATION}]: " in response.message
        assert "only system:serviceaccount:gputopo-system:gputopo-operator may" in response.message
        assert "leave this annotation unchanged" in response.message
    assert annotations_of(server, sized)[RESOURCES_ANNOTATION] == RECORD


@pytest.mark.parametrize("user", [ADMIN, OPERATOR], ids=["administrator", "operator"])
def test_copied_manifest_with_a_record_is_rejected(server: ApiServer, user: User) -> None:
    response = create(server, AUTO | {RESOURCES_ANNOTATION: RECORD}, user)
    assert response.status == FORBIDDEN
    if user is ADMIN:
        assert f"{RECORD} may not replace (nothing)" in response.message
        assert "remove this annotation" in response.message


@pytest.mark.parametrize("subresource", ["", "/status"])
@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (RESOURCES_MODE_ANNOTATION, "Proportional"),
        (RESOURCES_MODE_ANNOTATION, None),
        (RESOURCES_MAX_ANNOTATION, "cpu=16"),
        (RESOURCES_MAX_ANNOTATION, None),
    ],
)
def test_users_request_the_resizing_only_when_they_create_the_pod(
    server: ApiServer, sized: str, subresource: str, annotation: str, value: str | None
) -> None:
    response = annotate(server, sized + subresource, {annotation: value})
    assert response.status == FORBIDDEN
    assert f"metadata.annotations[{annotation}]: {value or '(nothing)'} may not" in response.message
    assert "change it in the pod template, which creates new pods" in response.message
    assert annotations_of(server, sized)[annotation] == AUTO[annotation]


@pytest.mark.parametrize("annotation", [RESOURCES_ANNOTATION, *AUTO])
@pytest.mark.parametrize("user", [ADMIN, EXTENDER], ids=["administrator", "extender"])
def test_binding_adds_no_annotation(server: ApiServer, annotation: str, user: User) -> None:
    name = create(server, {}).body["metadata"]["name"]
    binding: dict[str, Any] = {
        "metadata": {"name": name, "annotations": {annotation: "Auto"}},
        "target": {"kind": "Node", "name": "n1"},
    }
    response = server.create(f"{PODS}/{name}/binding", binding, user)
    assert response.status == FORBIDDEN
    assert f"metadata.annotations[{annotation}]: Auto may not replace (nothing)" in response.message
    server.delete(f"{PODS}/{name}")


@pytest.mark.usefixtures("mutating_policies")
@pytest.mark.parametrize("mode", ["Auto", "Proportional"])
def test_new_pod_gets_the_label_by_which_the_operator_finds_it(
    server: ApiServer, mode: str
) -> None:
    response = create(server, {RESOURCES_MODE_ANNOTATION: mode}, labels={"app": "train"})
    assert response.accepted, response.message
    assert response.body["metadata"]["labels"] == {"app": "train", TUNED_LABEL: "true"}
    server.delete(f"{PODS}/{response.body['metadata']['name']}")
    replaced = create(server, {RESOURCES_MODE_ANNOTATION: mode}, labels={TUNED_LABEL: "false"})
    assert replaced.body["metadata"]["labels"] == {TUNED_LABEL: "true"}
    server.delete(f"{PODS}/{replaced.body['metadata']['name']}")


@pytest.mark.parametrize("mode", [{}, {RESOURCES_MODE_ANNOTATION: "Fixed"}])
def test_pod_of_the_mode_fixed_gets_no_label(server: ApiServer, mode: dict[str, str]) -> None:
    response = create(server, mode)
    assert "labels" not in response.body["metadata"]
    server.delete(f"{PODS}/{response.body['metadata']['name']}")


@pytest.mark.parametrize("value", [None, "", "false"])
def test_label_stays(server: ApiServer, sized: str, value: str | None) -> None:
    response = server.merge(sized, {"metadata": {"labels": {TUNED_LABEL: value}}})
    assert response.status == FORBIDDEN
    shown = "(nothing)" if value is None else value
    assert f"metadata.labels[{TUNED_LABEL}]: {shown} may not replace true; this label is set" in (
        response.message
    )
    assert server.merge(sized, {"metadata": {"labels": {"a": "b"}}}).accepted


@pytest.mark.usefixtures("mutating_policies")
def test_pod_without_the_label_is_rejected_where_no_policy_adds_it(server: ApiServer) -> None:
    path = f"{MUTATING}/gputopo-tuned-label"
    kept = server.get(path).body
    assert server.delete(path).accepted
    try:
        wait_until(lambda: not create(server, AUTO).accepted, seconds=30)
        response = create(server, AUTO)
        assert response.status == 422
        assert f"metadata.labels[{TUNED_LABEL}]: '' is not 'true', which" in response.message
        assert f"{RESOURCES_MODE_ANNOTATION}=Auto requires; set this label in" in response.message
        assert create(server, AUTO, labels={TUNED_LABEL: "true"}).accepted
    finally:
        del kept["metadata"]["resourceVersion"]
        assert server.create(MUTATING, kept).accepted
    wait_until(lambda: create(server, AUTO).accepted, seconds=30)


def test_changes_that_keep_the_annotations_are_accepted(server: ApiServer, sized: str) -> None:
    assert annotate(server, sized, {"note": "x"}).accepted
    response = server.merge(f"{sized}/status", {"status": {"phase": "Running"}}, KUBELET)
    assert response.status == FORBIDDEN  # the pod is on no node
    assert server.merge(f"{sized}/status", {"status": {"phase": "Running"}}).accepted


@pytest.mark.parametrize(
    "most",
    [
        *("cpu=8", "cpu=500m", "cpu=1.5", "memory=64Gi", "memory=1000"),
        *("memory=1G,cpu=8", "cpu=8, memory=64Gi"),
    ],
)
def test_largest_amounts_of_a_new_pod_are_accepted(server: ApiServer, most: str) -> None:
    response = create(server, AUTO | {RESOURCES_MAX_ANNOTATION: most})
    assert response.accepted, response.message
    server.delete(f"{PODS}/{response.body['metadata']['name']}")


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        (
            {RESOURCES_MODE_ANNOTATION: "auto"},
            f"metadata.annotations[{RESOURCES_MODE_ANNOTATION}]: auto is not one of Fixed, Prop",
        ),
        (
            {RESOURCES_MAX_ANNOTATION: "cpu=8"},
            f"metadata.annotations[{RESOURCES_MAX_ANNOTATION}]: allowed with",
        ),
        *(
            (
                AUTO | {RESOURCES_MAX_ANNOTATION: most},
                f"metadata.annotations[{RESOURCES_MAX_ANNOTATION}]: {most} is not a list of cpu=",
            )
            for most in ("", "8", "cpu=", "cpu=8 CPUs", "gpu=8", "memory=0.5Gi", "cpu=8;memory=1G")
        ),
    ],
)
def test_invalid_request_of_a_new_pod_is_rejected(
    server: ApiServer, annotations: dict[str, str], message: str
) -> None:
    response = create(server, annotations)
    assert response.status == 422, response.body
    assert message in response.message
