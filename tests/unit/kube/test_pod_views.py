"""Pod objects become views: names, versions, quantities of GPUs, and the pod's own annotation."""

import json
from typing import Any

import pytest

from gputopo.api.annotations import AnnotationError
from gputopo.api.names import (
    AVOID_ANNOTATION,
    GPUS_ANNOTATION,
    PROFILE_ANNOTATION,
    RESOURCE,
    STEPS_SOURCE_ANNOTATION,
)
from gputopo.api.shares import share_resource
from gputopo_kube.document import ObjectKey
from gputopo_kube.gpu_containers import UNKNOWN_COUNT, ContainerKind, GpuContainer
from gputopo_kube.own_gpus import AnnotationOwnerError, own_gpus
from gputopo_kube.podmodel import PodError
from gputopo_kube.pods import parse_gpu_pod, parse_pod
from support.builders.objects import Document, container, pod


def requesting(quantity: object) -> Document:
    main = {"name": "main", "resources": {"limits": {RESOURCE: quantity}}}
    return pod("a", containers=[main, container("other", 2)])


@pytest.mark.parametrize(("quantity", "gpus"), [("1", 1), (8, 8), ("08", 8), ("999", 999)])
def test_a_plain_number_is_the_number_of_gpus(quantity: object, gpus: int) -> None:
    assert parse_pod(requesting(quantity)).containers[0] == GpuContainer("main", gpus)


@pytest.mark.parametrize(
    "quantity", ["1000", "1k", "2M", "1Ki", "1e3", "1e3k", "-1", "0.5", "", "\u0663", "9" * 5000]
)
def test_any_other_quantity_is_more_than_any_node_has(quantity: str) -> None:
    found = parse_pod(requesting(quantity))
    assert found.containers == (GpuContainer("main", UNKNOWN_COUNT), GpuContainer("other", 2))
    assert found.most_gpus == 64


@pytest.mark.parametrize("quantity", ["0", 0, None])
def test_a_container_without_gpus_is_left_out(quantity: object) -> None:
    assert parse_pod(requesting(quantity)).containers == (GpuContainer("other", 2),)


def test_the_request_counts_where_it_is_set_and_the_limit_otherwise() -> None:
    both = {"name": "both", "resources": {"requests": {RESOURCE: 1}, "limits": {RESOURCE: 2}}}
    limit = {"name": "limit", "resources": {"requests": None, "limits": {RESOURCE: 3}}}
    assert parse_pod(pod("a", containers=[both, limit])).containers == (
        GpuContainer("both", 1),
        GpuContainer("limit", 3),
    )


def test_another_resource_counts_where_it_is_configured() -> None:
    main = {"name": "main", "resources": {"limits": {"example.com/gpu": 2}}}
    document = pod("a", containers=[main])
    assert parse_pod(document, "example.com/gpu").containers == (GpuContainer("main", 2),)
    assert parse_gpu_pod(document, RESOURCE) is None


def test_containers_have_the_order_in_which_kubelet_serves_them() -> None:
    side = {**container("side", 1), "restartPolicy": "Always"}
    found = parse_pod(pod("a", 3, init_containers=[container("one", 2), side, container("two", 4)]))
    assert found.containers == (
        GpuContainer("one", 2, ContainerKind.INIT),
        GpuContainer("side", 1, ContainerKind.SIDECAR),
        GpuContainer("two", 4, ContainerKind.INIT),
        GpuContainer("main", 3),
    )
    assert [each.keeps_gpus for each in found.containers] == [False, True, False, True]
    assert found.most_gpus == 1 + 4
    keepers = [found.keeper_of(each) for each in found.containers]
    assert [each and each.name for each in keepers] == ["side", "side", "main", "main"]


def test_no_container_keeps_the_gpus_of_a_last_init_container() -> None:
    init = parse_pod(pod("a", 0, init_containers=[container("init", 2)]))
    assert [init.keeper_of(each) for each in init.containers] == [None]


def test_keeper_of_a_container_of_another_pod_is_an_error() -> None:
    with pytest.raises(ValueError, match="not in tuple"):
        parse_pod(pod("a")).keeper_of(GpuContainer("other", 1))


def test_container_with_whole_gpus_and_shares_keeps_both() -> None:
    limits = {RESOURCE: 1, share_resource(RESOURCE): 2}
    both = parse_pod(pod("a", containers=[{"name": "main", "resources": {"limits": limits}}]))
    assert [both.keeper_of(each) for each in both.containers] == [*both.containers]
    assert len(both.containers) == 2


def test_a_view_has_names_node_phase_and_our_annotations() -> None:
    annotations = {"gputopo.io/pattern": "Ring", "big": "x" * 100_000}
    found = parse_pod(pod("a", node="n1", phase="Running", annotations=annotations))
    assert (found.key, str(found.key)) == (ObjectKey("default", "a"), "default/a")
    assert (found.namespace, found.name, found.node) == ("default", "a", "n1")
    assert (found.live, found.running) == (True, True)
    assert found.annotations == {"gputopo.io/pattern": "Ring"}


def test_absent_and_null_fields_have_their_defaults() -> None:
    document = pod("a", 2)
    document["spec"]["initContainers"] = None
    document["status"] = None
    del document["metadata"]["annotations"]
    found = parse_pod(document)
    assert (found.node, found.phase, found.annotations) == (None, "Pending", {})
    del document["status"]
    assert parse_pod(document) == found


@pytest.mark.parametrize(
    ("text", "version"), [("17", 17), (None, 0), ("", 0), ("abc", 0), ("-1", 0), ("9" * 20, 0)]
)
def test_a_resource_version_that_is_not_a_number_is_0(text: str | None, version: int) -> None:
    document = pod("a")
    document["metadata"]["resourceVersion"] = text
    assert parse_pod(document).version == version


def test_a_gpu_pod_needs_a_resource_version_that_is_a_number() -> None:
    document = pod("a")
    document["metadata"]["resourceVersion"] = "abc"
    with pytest.raises(PodError, match=r"metadata.resourceVersion: 'abc' is not a number"):
        parse_gpu_pod(document, RESOURCE)


def test_a_pod_that_requests_no_gpu_is_no_gpu_pod() -> None:
    assert parse_gpu_pod(pod("a", containers=[container("main")]), RESOURCE) is None
    assert parse_gpu_pod(pod("a"), RESOURCE) == parse_pod(pod("a"))


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        ("metadata", "uid", ""),
        ("metadata", "name", None),
        ("metadata", "annotations", {"a": 1}),
        ("spec", "containers", None),
        ("spec", "containers", [{}]),
        ("spec", "nodeName", 1),
        ("status", "phase", []),
        ("status", "containerStatuses", [1]),
    ],
)
def test_a_malformed_pod_is_rejected_by_field(part: str, field: str, value: object) -> None:
    document = pod("a")
    document[part][field] = value
    with pytest.raises(PodError, match=f"^pod {part}.{field}"):
        parse_pod(document)


def annotated(node: str | None = "n1", **annotation: Any) -> Document:
    written = {"uid": "uid-a", "node": "n1", "generation": 1, "containers": {"main": ["GPU-1"]}}
    return pod("a", node=node, annotations={GPUS_ANNOTATION: json.dumps(written | annotation)})


def test_a_pods_own_annotation_counts() -> None:
    found = own_gpus(parse_pod(annotated()))
    assert found is not None
    assert found.containers == {"main": ["GPU-1"]}
    assert own_gpus(parse_pod(pod("a", node="n1"))) is None


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (annotated(uid="uid-b"), "uid is uid-b, but the pod's uid is uid-a$"),
        (annotated(node="n2"), "node is n1, but the pod's node is n2$"),
        (annotated(node=None), "node is n1, but the pod's node is none$"),
    ],
)
def test_an_annotation_of_another_pod_or_node_is_rejected(document: Document, reason: str) -> None:
    with pytest.raises(AnnotationOwnerError, match=f"^{GPUS_ANNOTATION}: {reason}"):
        own_gpus(parse_pod(document))


def test_an_annotation_that_cannot_be_parsed_has_an_error_of_its_own() -> None:
    with pytest.raises(AnnotationError, match=f"^{GPUS_ANNOTATION}: generation") as caught:
        own_gpus(parse_pod(annotated(generation="x")))
    assert not isinstance(caught.value, AnnotationOwnerError)


@pytest.mark.parametrize("spec", [{}, {"containers": [1]}, [], None])
def test_a_malformed_pod_is_no_pod_without_gpus(spec: object) -> None:
    document = {**pod("a"), "spec": spec}
    with pytest.raises(PodError, match=r"^pod spec"):
        parse_gpu_pod(document, RESOURCE)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_ended_pod_is_not_live(phase: str) -> None:
    assert not parse_pod(pod("a", phase=phase)).live


def test_sidecars_keep_their_gpus_and_rank_after_application_containers() -> None:
    side = {**container("side", 1), "restartPolicy": "Always"}
    found = parse_pod(pod("a", 2, init_containers=[container("first", 1), side, side]))
    assert found.gpu_keepers == (
        GpuContainer("main", 2),
        GpuContainer("side", 1, ContainerKind.SIDECAR),
        GpuContainer("side", 1, ContainerKind.SIDECAR),
    )
    assert found.most_gpus == 2 + 1 + 1


@pytest.mark.parametrize("missing", ["uid", "name", "namespace", "resourceVersion"])
def test_gpu_pod_without_its_names_is_rejected_by_field(missing: str) -> None:
    document = pod("a")
    del document["metadata"][missing]
    with pytest.raises(PodError, match=f"^pod metadata.{missing}"):
        parse_gpu_pod(document, RESOURCE)


PREFERRED: Document = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
REQUIRED: Document = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}}


@pytest.mark.parametrize(
    ("spec", "prefers"),
    [
        ({}, False),
        ({"affinity": None}, False),
        ({"affinity": {"nodeAffinity": REQUIRED, "podAffinity": None}}, False),
        ({"affinity": {"nodeAffinity": PREFERRED}}, True),
        ({"affinity": {"podAntiAffinity": {**REQUIRED, **PREFERRED}}}, True),
        ({"topologySpreadConstraints": [{"maxSkew": 1}]}, True),
        ({"resourceClaims": [{"name": "nic", "resourceClaimName": "fast"}]}, True),
    ],
)
def test_pod_that_prefers_nodes_is_recognized(spec: Document, *, prefers: bool) -> None:
    document = pod("a", 2)
    document["spec"] |= spec
    assert parse_pod(document).prefers_nodes is prefers


def test_equal_labels_are_one_object() -> None:
    labels = {"b": "2", "a": "1"}
    first, second = (parse_pod(pod(name, labels=labels)) for name in ("x", "y"))
    assert first.labels == (("a", "1"), ("b", "2"))
    assert first.labels is second.labels
    assert parse_pod(pod("z")).labels == ()


def test_annotations_of_a_bound_pod_are_those_of_its_binding() -> None:
    written = {"uid": "uid-a", "node": "n1", "generation": 1, "containers": {"main": ["GPU-a"]}}
    own = json.dumps(written | {"request": {"profile": "bert"}}, separators=(",", ":"))
    changed = {
        GPUS_ANNOTATION: own,
        PROFILE_ANNOTATION: "changed",
        AVOID_ANNOTATION: "added",
        STEPS_SOURCE_ANNOTATION: "Log",
    }
    bound = parse_pod(pod("a", node="n1", annotations=changed)).annotations
    assert bound == {
        GPUS_ANNOTATION: own,
        PROFILE_ANNOTATION: "bert",
        STEPS_SOURCE_ANNOTATION: "Log",
    }
    for not_own in (pod("a"), pod("b", node="n1"), pod("a", node="n2")):
        not_own["metadata"]["annotations"] = changed
        assert parse_pod(not_own).annotations == changed
