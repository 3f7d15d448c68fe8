"""The table of who may write each field, on a real API server: each writer at each moment."""

import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from gputopo.api import names
from gputopo.api.fields import FIELDS, Field, Place, Until, Writer
from support.builders.gpujobs import gpu_job
from support.control_plane.api_server import (
    ADMIN,
    JOBS,
    LEASES,
    PODS,
    PROFILES,
    TOPOLOGIES,
    ApiResponse,
    ApiServer,
    User,
    service_account,
)
from support.control_plane.ensemble_work import ENSEMBLES
from support.control_plane.namespace_users import POD_SUBRESOURCES, add_rights, put_user
from support.operator.ensembles import ensemble, member

MALLORY = User("mallory")
OPERATOR = service_account("gputopo-operator")
EXTENDER = service_account("gputopo-extender")
AGENT = service_account("gputopo-deviceplugin", node="n1")
WRITERS = {
    "user": MALLORY,
    "administrator": ADMIN,
    "operator": OPERATOR,
    "extender": EXTENDER,
    "agent": AGENT,
}
ACCOUNTS = {"operator": Writer.OPERATOR, "extender": Writer.EXTENDER}
MOMENTS = ("create", "waiting", "waiting/status", "bound", "bound/status", "binding")
RIGHTS = {
    "user": MOMENTS,
    "administrator": MOMENTS,
    "operator": ("waiting/status", "bound/status"),
    "extender": ("waiting/status", "bound/status", "binding"),
    "agent": (),
}
TUNED = {names.RESOURCES_MODE_ANNOTATION: "Proportional"}
VALUES = {**TUNED, names.RESOURCES_MAX_ANNOTATION: "cpu=8", names.TUNED_LABEL: "true"}
POD_FIELDS = [each for each in FIELDS if each.kind == "pods" and each.place is not Place.STATUS]
FORBIDDEN = 403
_number = itertools.count()


@pytest.fixture(scope="module")
def users(server: ApiServer) -> ApiServer:
    """The server with a user who has all rights to the pods of the namespace."""
    put_user(server, "mallory", "default")
    pods = [f"pods/{subresource}" for subresource in POD_SUBRESOURCES]
    add_rights(server, "mallory", "default", "", "pods", "bindings", *pods)
    return server


def pod(field: Field | None = None, value: str = "") -> dict[str, Any]:
    """Return a pod that the operator may change; with a field, if given."""
    annotations, labels = {names.PROFILING_ANNOTATION: "CPUs"}, {"app": "train"}
    if field is not None:
        if field.name in VALUES:
            annotations |= TUNED
            labels |= {names.TUNED_LABEL: "true"}
        (labels if field.place is Place.LABEL else annotations)[field.name] = value
    container = {"name": "main", "image": "busybox"}
    metadata = {"name": f"row-{next(_number)}", "annotations": annotations, "labels": labels}
    return {"metadata": metadata, "spec": {"containers": [container]}}


def write(server: ApiServer, field: Field, value: str, who: str, moment: str) -> ApiResponse:
    """Write the field of a pod at a moment."""
    user = WRITERS[who]
    if moment == "create":
        return server.create(PODS, pod(field, value), user)
    path = f"{PODS}/{server.create(PODS, pod()).body['metadata']['name']}"
    key = "labels" if field.place is Place.LABEL else "annotations"
    change = {"metadata": {key: {field.name: value}}}
    if moment == "binding":
        return server.create(f"{path}/binding", binding(path, {field.name: value}), user)
    state, _, subresource = moment.partition("/")
    if state == "bound":
        assert server.create(f"{path}/binding", binding(path, {})).accepted
    return server.merge(f"{path}/{subresource}".rstrip("/"), change, user)


def binding(path: str, annotations: Mapping[str, str]) -> dict[str, Any]:
    name = path.rpartition("/")[2]
    target = {"kind": "Node", "name": "n1"}
    return {"metadata": {"name": name, "annotations": {**annotations}}, "target": target}


def is_allowed(field: Field, who: str, moment: str) -> bool:
    """Return what the table says, limited by the rights of the writer and the operator's policy."""
    if moment not in RIGHTS[who]:
        return False
    writes_status = moment.endswith("/status")
    if field.writer is Writer.USER:
        if who == "operator":
            return field.name == names.RESOURCES_MAX_ANNOTATION
        waits = moment in {"create", "waiting", "waiting/status"}
        return {
            Until.CREATED: moment == "create",
            Until.BOUND: waits,
            Until.ENDED: True,
        }[field.until]
    if field.until is Until.BINDING:
        return who == "extender" and moment == "binding"
    return ACCOUNTS.get(who) is field.writer and (writes_status or moment == "binding")


@pytest.mark.parametrize("field", POD_FIELDS, ids=lambda each: each.name.partition("/")[2])
def test_field_of_a_pod_has_the_writers_of_the_table(users: ApiServer, field: Field) -> None:
    moments = MOMENTS[:-1] if field.place is Place.LABEL else MOMENTS
    cases = [(who, moment) for who in WRITERS for moment in moments]
    value = VALUES.get(field.name, "x")
    responses = {case: write(users, field, value, *case) for case in cases}
    outcomes = {case: response.accepted for case, response in responses.items()}
    assert outcomes == {case: is_allowed(field, *case) for case in cases}
    for (who, moment), response in responses.items():
        if response.accepted:
            continue
        assert response.status == FORBIDDEN, response.message
        if who == "user":
            assert f"metadata.{field.place}s[{field.name}]: {value} may not replace (nothing)" in (
                response.message
            ), moment


@pytest.mark.parametrize(
    "field",
    [each for each in POD_FIELDS if each.place is Place.ANNOTATION],
    ids=lambda each: each.name.partition("/")[2],
)
def test_longest_values_are_accepted_or_rejected_with_the_name_of_the_field(
    users: ApiServer, field: Field
) -> None:
    """The policies stay within the limits of the API server for expressions."""
    for moment in ("create", "bound", "waiting"):
        response = write(users, field, "x" * 250_000, "user", moment)
        if is_allowed(field, "user", moment) and field.name not in VALUES:
            assert response.accepted, response.message
        else:
            assert response.status in {FORBIDDEN, 422}
            assert f"metadata.annotations[{field.name}]" in response.message
            assert "budget" not in response.message


def test_a_pod_with_thousands_of_annotations_can_be_changed(users: ApiServer) -> None:
    many = {f"a-{number}": "x" * 20 for number in range(8000)}
    body = pod()
    body["metadata"]["annotations"] |= many
    made = users.create(PODS, body, MALLORY)
    assert made.accepted, made.message
    path = f"{PODS}/{body['metadata']['name']}"
    change = {"metadata": {"annotations": {"a-1": "y"}}}
    for subresource in ("", "/status"):
        assert users.merge(path + subresource, change, MALLORY).accepted
    assert users.create(f"{path}/binding", binding(path, {}), MALLORY).accepted
    record = {"metadata": {"annotations": {names.RESOURCES_ANNOTATION: "{}"}}}
    response = users.merge(f"{path}/status", record, OPERATOR)
    assert response.accepted, response.message
    assert users.merge(path, record | {"spec": {}}, MALLORY).accepted  # no change
    late = {"metadata": {"annotations": {names.PROFILE_ANNOTATION: "other"}}}
    assert users.merge(path, late, MALLORY).status == FORBIDDEN


def test_a_value_with_line_breaks_is_rejected_with_a_message(users: ApiServer) -> None:
    field = next(each for each in POD_FIELDS if each.name == names.PROFILE_ANNOTATION)
    response = write(users, field, "a\r\nb", "user", "bound")
    assert response.status == FORBIDDEN
    assert f"{field.name}]: a  b may not replace (nothing)" in response.message


def test_a_pod_of_a_node_keeps_its_request_in_all_ways(users: ApiServer) -> None:
    body = pod()
    body["metadata"]["annotations"][names.PROFILE_ANNOTATION] = "resnet50"
    assert users.create(PODS, body, MALLORY).accepted
    path = f"{PODS}/{body['metadata']['name']}"
    assert users.create(f"{path}/binding", binding(path, {}), MALLORY).accepted
    for value in ("bert", "", None):
        change = {"metadata": {"annotations": {names.PROFILE_ANNOTATION: value}}}
        for subresource in ("", "/status"):
            response = users.merge(path + subresource, change, MALLORY)
            assert response.status == FORBIDDEN, response.body
            assert "a pod keeps this annotation once it has a node" in response.message
    whole = users.get(path).body
    whole["metadata"]["annotations"] = {}
    for subresource in ("", "/resize", "/ephemeralcontainers"):
        response = users.request("PUT", path + subresource, whole, user=MALLORY)
        assert response.accepted == bool(subresource), response.body
        whole["metadata"].pop("resourceVersion", None)
    annotations = users.get(path).body["metadata"]["annotations"]
    assert annotations[names.PROFILE_ANNOTATION] == "resnet50"
    eviction = {"metadata": {"name": body["metadata"]["name"]}}
    evicted = users.create(f"{path}/eviction", {**EVICTION, **eviction})
    assert evicted.accepted, evicted.message


EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction"}
EPOCH = "1970-01-01T00:00:00Z"
STATUSES = {
    "gpujobs": (JOBS, {"queue": {"waitingSince": EPOCH}}),
    "gpuprofiles": (PROFILES, {"sampleCount": 3}),
    "gpuensembles": (ENSEMBLES, {"phase": "Running"}),
}


def put_object(server: ApiServer, kind: str) -> str:
    """Create an object of a kind of gputopo; return its path."""
    collection, _ = STATUSES[kind]
    name = f"row-{next(_number)}"
    profile = {"apiVersion": names.API_VERSION, "kind": "GPUProfile", "spec": {}}
    bodies = {"gpujobs": gpu_job(), "gpuensembles": ensemble(member("a")), "gpuprofiles": profile}
    body = {**bodies[kind], "metadata": {"name": name}}
    response = server.create(collection, body, MALLORY)
    assert response.accepted, response.message
    return f"{collection}/{name}"


@pytest.mark.parametrize("kind", STATUSES)
def test_status_of_gputopos_kinds_is_written_by_the_operator_only(
    users: ApiServer, kind: str
) -> None:
    add_rights(users, "mallory", "default", "gputopo.io", f"{kind}/status")
    path = put_object(users, kind)
    change = {"status": STATUSES[kind][1]}
    for user in (MALLORY, ADMIN, EXTENDER, AGENT):
        response = users.merge(f"{path}/status", change, user)
        assert response.status == FORBIDDEN, response.body
        if user in (MALLORY, ADMIN):
            assert (
                "status: only system:serviceaccount:gputopo-system:gputopo-operator may write the"
                f" status of {kind}; change the spec of" in response.message
            )
            assert "ValidatingAdmissionPolicyBinding gputopo-operator-fields" in response.message
    assert not users.get(path).body.get("status")
    response = users.merge(f"{path}/status", change, OPERATOR)
    assert response.accepted, response.message
    assert users.merge(path, {"metadata": {"labels": {"a": "b"}}}, MALLORY).accepted


def test_all_kinds_with_a_status_of_the_operator_were_tried() -> None:
    of_operator = {
        each.kind
        for each in FIELDS
        if each.place is Place.STATUS and each.writer is Writer.OPERATOR
    }
    assert of_operator == STATUSES.keys()


def test_node_of_a_member_is_written_by_the_operator_only(users: ApiServer) -> None:
    planned = gpu_job(f"row-{next(_number)}")
    planned["metadata"]["annotations"] = {names.ENSEMBLE_NODE_ANNOTATION: "n1"}
    for user in (MALLORY, ADMIN):
        response = users.create(JOBS, planned, user)
        assert response.status == FORBIDDEN, response.body
        assert f"metadata.annotations[{names.ENSEMBLE_NODE_ANNOTATION}]: only" in response.message
    assert users.create(JOBS, planned, OPERATOR).accepted
    path = f"{JOBS}/{planned['metadata']['name']}"
    change = {"metadata": {"annotations": {names.ENSEMBLE_NODE_ANNOTATION: "n2"}}}
    assert users.merge(path, change, MALLORY).status == FORBIDDEN
    assert users.merge(path, {"spec": {"suspend": True}}, MALLORY).accepted


def test_user_writes_no_object_that_rights_alone_protect(users: ApiServer) -> None:
    topology = {"apiVersion": names.API_VERSION, "kind": "GPUTopology", "spec": {}}
    named = {"metadata": {"name": "n1"}}
    claims = {"metadata": {"annotations": {names.CLAIMS_ANNOTATION: "{}"}}}
    reset = {"metadata": {"annotations": {names.GPUS_RESET_ANNOTATION: EPOCH}}}
    for response in (
        users.create(TOPOLOGIES, {**topology, **named}, MALLORY),
        users.merge(f"{TOPOLOGIES}/n1", {"spec": {}}, MALLORY),
        users.merge(f"{TOPOLOGIES}/n1/status", {"status": {}}, MALLORY),
        users.merge(f"{LEASES}/gputopo-claims", claims, MALLORY),
        users.merge("/api/v1/nodes/n1", reset, MALLORY),
        users.merge("/api/v1/nodes/n1/status", {"status": {}}, MALLORY),
    ):
        assert response.status == FORBIDDEN, response.body
