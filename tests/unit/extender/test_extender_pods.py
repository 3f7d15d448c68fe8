"""Views of pods, and their placement requests."""

import pytest

from gputopo.api.names import RESOURCE
from gputopo.patterns.model import PatternKind
from gputopo.placement.model import PlacementRequest, PolicyName
from gputopo_extender.verbs.evaluation import Misfit, MisfitKind
from gputopo_extender.verbs.request import placement_request
from gputopo_kube.podmodel import PodError
from gputopo_kube.pods import ContainerKind, GpuContainer, PodView, parse_gpu_pod
from objects import Document, container, pod


def record(document: Document) -> PodView:
    found = parse_gpu_pod(document, RESOURCE)
    assert found is not None
    return found


def response(document: Document) -> PlacementRequest | Misfit:
    return placement_request(
        record(document), resource=RESOURCE, default_policy=PolicyName.PRESERVE
    )


def test_pod_that_requests_no_gpu_has_no_view() -> None:
    assert parse_gpu_pod(pod("a", containers=[container("main")]), RESOURCE) is None
    zero = {"name": "main", "resources": {"requests": {RESOURCE: "0"}}}
    assert parse_gpu_pod(pod("a", containers=[zero]), RESOURCE) is None


def test_view_keeps_only_the_annotations_of_gputopo() -> None:
    document = pod("a", annotations={"gputopo.io/pattern": "Ring", "big": "x" * 100_000})
    assert record(document).annotations == {"gputopo.io/pattern": "Ring"}


def test_limit_without_a_request_counts() -> None:
    only_limit = {"name": "main", "resources": {"limits": {RESOURCE: "3"}}}
    assert record(pod("a", containers=[only_limit])).containers == (GpuContainer("main", 3),)


def test_absent_and_null_lists_are_empty() -> None:
    document = pod("a", 2)
    document["spec"]["initContainers"] = None
    del document["metadata"]["annotations"]
    del document["status"]
    assert record(document).live
    assert record(document).most_gpus == 2


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_ended_pod_is_not_live(phase: str) -> None:
    assert not record(pod("a", phase=phase)).live


def test_most_gpus_counts_sidecars_and_the_largest_init_container() -> None:
    side = {**container("side", 1), "restartPolicy": "Always"}
    inits = [container("one", 2), side, container("two", 4)]
    assert record(pod("a", 3, init_containers=inits)).most_gpus == 1 + 4
    assert record(pod("a", 1, init_containers=[side, side])).most_gpus == 2 + 1


def test_sidecars_rank_after_application_containers_and_init_containers_borrow() -> None:
    side = {**container("side", 1), "restartPolicy": "Always"}
    inits = [container("first", 1), side, container("second", 2)]
    found = record(pod("a", 2, init_containers=inits))
    assert found.gpu_keepers == (
        GpuContainer("main", 2),
        GpuContainer("side", 1, ContainerKind.SIDECAR),
    )


def test_init_container_must_not_request_more_than_the_next_that_keeps_its_gpus() -> None:
    side = {**container("side", 1), "restartPolicy": "Always"}
    for inits, gpus, expected in (
        ([container("first", 2), side], 2, "'first': 2, and of the containers after it 'side' "),
        ([side, container("first", 3)], 2, "'first': 3, and of the containers after it 'main' "),
        ([side, container("first", 3)], 0, "of the containers after it none keeps any"),
        ([container("first", "1e3k")], 2, "container 'first': not a whole number below 1000"),
    ):
        rejected = response(pod("a", gpus, init_containers=inits))
        assert isinstance(rejected, Misfit)
        assert expected in rejected.reason


@pytest.mark.parametrize("count", ["1e3k", "9" * 5000, "-1", "0.5"])
def test_count_that_is_not_a_number_uses_a_whole_node_and_is_rejected(count: str) -> None:
    found = record(pod("a", containers=[container("main", count)]))
    assert found.most_gpus == 64
    rejected = placement_request(found, resource=RESOURCE, default_policy=PolicyName.PRESERVE)
    assert rejected == Misfit(
        MisfitKind.REJECTED, f"{RESOURCE} in container 'main': not a whole number below 1000"
    )


@pytest.mark.parametrize("missing", ["uid", "name", "namespace", "resourceVersion"])
def test_pod_without_names_is_rejected_by_field(missing: str) -> None:
    document = pod("a")
    del document["metadata"][missing]
    with pytest.raises(PodError, match=f"metadata.{missing}"):
        parse_gpu_pod(document, RESOURCE)


def test_several_containers_share_one_match_in_the_order_of_the_spec() -> None:
    two = pod("a", containers=[container("x", 1), container("log"), container("y", 2)])
    request = response(two)
    assert isinstance(request, PlacementRequest)
    assert record(two).containers == (GpuContainer("x", 1), GpuContainer("y", 2))
    assert (request.size, request.pattern.kind) == (3, PatternKind.RING)


def test_pods_policy_wins_over_the_configured_one() -> None:
    request = response(pod("a", 2, annotations={"gputopo.io/policy": "Greedy"}))
    assert isinstance(request, PlacementRequest)
    assert request.policy is PolicyName.GREEDY


@pytest.mark.parametrize(
    ("declared", "gpus", "sensitive", "reason"),
    [
        ("Auto", 1, False, "SingleGpu"),
        ("Auto", 2, True, "SensitivityUnknown"),
        ("Insensitive", 2, False, "Declared"),
        ("Sensitive", 2, True, "Declared"),
    ],
)
def test_sensitivity_is_declared_or_assumed_for_several_gpus(
    declared: str, gpus: int, *, sensitive: bool, reason: str
) -> None:
    request = response(pod("a", gpus, annotations={"gputopo.io/bandwidth-sensitivity": declared}))
    assert isinstance(request, PlacementRequest)
    assert (request.sensitive, request.sensitivity_reason) == (sensitive, reason)


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
    assert record(document).prefers_nodes is prefers
