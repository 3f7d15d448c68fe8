"""Annotations of a pod: the request, the exact GPUs and the placement."""

import json
from typing import Any

import pytest

from gputopo.api.annotations import (
    AnnotationError,
    GpusAnnotation,
    PlacementAnnotation,
    parse_gpus,
    parse_placement,
)
from gputopo.api.request import RequestAnnotations, format_request, parse_request
from gputopo.patterns.declared import DeclaredPattern
from gputopo.patterns.model import PatternEdge, PatternKind
from gputopo.placement.model import PolicyName
from gputopo.sensitivity.resolve import Sensitivity

PATTERNS = "Ring, Tree, RingTree, Chain, Star, AllToAll, Custom, Auto"
GPUS = {
    "v": 1,
    "uid": "u",
    "node": "n1",
    "generation": 7,
    "containers": {"main": ["GPU-b", "GPU-a"]},
}
PLACEMENT = {
    "exact": True,
    "v": 1,
    "policy": "Preserve",
    "pattern": "Ring",
    "sensitive": True,
    "reason": "Declared",
    "model": "eq2",
    "effectiveMBps": 57858,
    "aggregateMBps": 125000,
    "preservedMBps": 311000,
}


def custom(edges: Any) -> dict[str, str]:
    return {"gputopo.io/pattern": "Custom", "gputopo.io/edges": json.dumps(edges)}


def test_a_pod_without_annotations_declares_nothing() -> None:
    assert parse_request({"other": "annotation"}) == RequestAnnotations(
        DeclaredPattern.AUTO, (), Sensitivity.AUTO, None
    )


def test_a_pod_may_have_all_annotations() -> None:
    request = custom([{"from": 0, "to": 2, "weight": 3}, {"from": 1, "to": 2}]) | {
        "gputopo.io/bandwidth-sensitivity": "Insensitive",
        "gputopo.io/policy": "Greedy",
    }
    assert parse_request(request) == RequestAnnotations(
        DeclaredPattern.CUSTOM,
        (PatternEdge(0, 2, 3), PatternEdge(1, 2)),
        Sensitivity.INSENSITIVE,
        PolicyName.GREEDY,
    )


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("gputopo.io/pattern", PATTERNS),
        ("gputopo.io/bandwidth-sensitivity", "Sensitive, Insensitive, Auto"),
        ("gputopo.io/policy", "Baseline, TopoAware, Greedy, Preserve, Utility, Weakest"),
    ],
)
@pytest.mark.parametrize("value", ["ring", "ring-tree", "TOPOAWARE", "", "Sometimes"])
def test_an_unknown_value_is_rejected_with_the_allowed_values(
    name: str, allowed: str, value: str
) -> None:
    with pytest.raises(AnnotationError) as rejected:
        parse_request({name: value})
    assert str(rejected.value) == f"{name}: {value!r} is not one of {allowed}"


def test_a_long_value_is_cut_before_the_allowed_values() -> None:
    with pytest.raises(AnnotationError) as rejected:
        parse_request({"gputopo.io/pattern": "R" * 100_000})
    shown = "R" * 79
    assert str(rejected.value) == (f"gputopo.io/pattern: '{shown}... is not one of {PATTERNS}")


@pytest.mark.parametrize(
    ("edges", "part"),
    [
        ({"from": 0, "to": 1}, "valid array"),
        ([{"from": 0}], r"\[0\].to: is required"),
        ([{"from": -1, "to": 1}], r"\[0\].from: -1: .*greater than or equal to 0"),
        ([{"from": 0, "to": 16}], r"\[0\].to: 16: .*less than 16"),
        ([{"from": 0, "to": 1, "weight": 0}], r"\[0\].weight"),
        ([{"from": 0, "to": 1, "weight": 1001}], r"\[0\].weight"),
        ([{"from": "0", "to": 1}], r"\[0\].from"),
        ([{"from": 0, "to": True}], r"\[0\].to"),
        ([], "has no edge"),
    ],
)
def test_wrong_edges_are_rejected_with_index_and_value(edges: Any, part: str) -> None:
    with pytest.raises(AnnotationError, match=rf"gputopo\.io/edges: .*{part}"):
        parse_request(custom(edges))


def test_edges_that_are_not_json_are_rejected() -> None:
    broken = {"gputopo.io/pattern": "Custom", "gputopo.io/edges": "0-1,1-2"}
    with pytest.raises(AnnotationError, match=r"gputopo\.io/edges: .*JSON list of"):
        parse_request(broken)


def test_custom_without_edges_is_rejected() -> None:
    with pytest.raises(AnnotationError, match=r"gputopo\.io/edges: required with"):
        parse_request({"gputopo.io/pattern": "Custom"})


def test_edges_without_custom_are_rejected() -> None:
    with pytest.raises(
        AnnotationError, match=r"allowed with gputopo\.io/pattern=Custom only, not Auto"
    ):
        parse_request({"gputopo.io/edges": "[]"})


def test_the_exact_gpus_are_parsed_in_rank_order() -> None:
    read = parse_gpus({"gputopo.io/gpus": json.dumps(GPUS)})
    assert read == GpusAnnotation(
        uid="u", node="n1", generation=7, containers={"main": ["GPU-b", "GPU-a"]}
    )
    assert read is not None
    assert json.loads(read.dump()) == GPUS


def test_a_placement_is_written_as_it_was_parsed() -> None:
    read = parse_placement({"gputopo.io/placement": json.dumps(PLACEMENT)})
    assert read is not None
    assert json.loads(read.dump()) == PLACEMENT


def test_a_placement_of_one_gpu_has_no_effective_bandwidth() -> None:
    single = PlacementAnnotation(
        policy=PolicyName.PRESERVE,
        pattern=PatternKind.RING,
        sensitive=False,
        reason="SingleGpu",
        aggregate_mb_per_s=0,
        preserved_mb_per_s=5,
    )
    assert "effectiveMBps" not in json.loads(single.dump())
    assert parse_placement({"gputopo.io/placement": single.dump()}) == single


def test_without_annotations_the_result_is_none() -> None:
    assert parse_gpus({}) is None
    assert parse_placement({}) is None


def test_a_search_that_reached_its_limit_has_a_bound() -> None:
    cut_short = PLACEMENT | {"exact": False, "aggregateBoundMBps": 150000}
    read = parse_placement({"gputopo.io/placement": json.dumps(cut_short)})
    assert read is not None
    assert (read.exact, read.aggregate_mb_per_s, read.aggregate_bound_mb_per_s) == (
        False,
        125000,
        150000,
    )
    assert json.loads(read.dump()) == cut_short


def test_a_placement_without_bound_is_parsed() -> None:
    for older in (PLACEMENT, PLACEMENT | {"exact": False}):
        read = parse_placement({"gputopo.io/placement": json.dumps(older)})
        assert read is not None
        assert read.aggregate_bound_mb_per_s is None


def test_unknown_keys_are_ignored_so_that_a_roll_back_works() -> None:
    assert parse_gpus({"gputopo.io/gpus": json.dumps(GPUS | {"later": [1]})}) is not None
    later = PLACEMENT | {"later": {"a": 1}}
    assert parse_placement({"gputopo.io/placement": json.dumps(later)}) == parse_placement(
        {"gputopo.io/placement": json.dumps(PLACEMENT)}
    )


def test_a_placement_with_unknown_pattern_and_policy_is_parsed() -> None:
    later = PLACEMENT | {"pattern": "Torus", "policy": "Oracle"}
    read = parse_placement({"gputopo.io/placement": json.dumps(later)})
    assert read is not None
    assert (read.pattern, read.policy, read.aggregate_mb_per_s) == ("Torus", "Oracle", 125000)


@pytest.mark.parametrize("policy", list(PolicyName))
@pytest.mark.parametrize("pattern", [*DeclaredPattern])
def test_every_pattern_and_policy_can_be_requested_by_name(
    pattern: DeclaredPattern, policy: PolicyName
) -> None:
    annotations = {"gputopo.io/pattern": pattern.value, "gputopo.io/policy": policy.value}
    if pattern is DeclaredPattern.CUSTOM:
        annotations |= custom([{"from": 0, "to": 1, "weight": 1}])
    request = parse_request(annotations)
    assert (request.pattern, request.policy) == (pattern, policy)
    assert parse_request(format_request(request)) == request


def test_the_pattern_auto_is_not_written_because_an_older_extender_rejects_it() -> None:
    request = parse_request({"gputopo.io/pattern": "Auto"})
    assert request == RequestAnnotations()
    assert "gputopo.io/pattern" not in format_request(request)


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"v": 2}, "v: "),
        ({"uid": ""}, "uid: "),
        ({"node": None}, "node: "),
        ({"generation": -1}, "generation: "),
        ({"containers": {"main": []}}, "containers.main: "),
        ({"containers": {"main": [""]}}, "containers.main[0]: "),
        ({"containers": {"main": ["G" * 64]}}, "containers.main[0]: "),
        ({"containers": ["GPU-a"]}, "containers: "),
    ],
)
def test_wrong_gpus_are_rejected_with_the_field(change: dict[str, Any], part: str) -> None:
    with pytest.raises(AnnotationError) as rejected:
        parse_gpus({"gputopo.io/gpus": json.dumps(GPUS | change)})
    assert str(rejected.value).startswith(f"gputopo.io/gpus: {part}")


@pytest.mark.parametrize("text", ["", "{", "[]", "null"])
def test_gpus_that_are_no_json_object_are_rejected(text: str) -> None:
    with pytest.raises(AnnotationError, match=r"gputopo\.io/gpus: value: "):
        parse_gpus({"gputopo.io/gpus": text})


def test_a_request_without_policy_has_no_policy_annotation() -> None:
    assert format_request(RequestAnnotations()) == {"gputopo.io/bandwidth-sensitivity": "Auto"}
    assert (
        format_request(RequestAnnotations(policy=PolicyName.BASELINE))["gputopo.io/policy"]
        == "Baseline"
    )


def test_the_weights_of_edges_are_written_and_parsed() -> None:
    edges = (PatternEdge(0, 2, 1000), PatternEdge(2, 1))
    written = format_request(RequestAnnotations(pattern=DeclaredPattern.CUSTOM, edges=edges))
    assert json.loads(written["gputopo.io/edges"]) == [
        {"from": 0, "to": 2, "weight": 1000},
        {"from": 2, "to": 1, "weight": 1},
    ]
    assert parse_request(written).edges == edges


def test_an_error_about_a_long_key_is_short() -> None:
    text = json.dumps(
        {"v": 1, "uid": "u", "node": "n", "generation": 1, "containers": {"k" * 9999: 1}}
    )
    with pytest.raises(AnnotationError) as rejected:
        parse_gpus({"gputopo.io/gpus": text})
    assert str(rejected.value).startswith("gputopo.io/gpus: containers.kkk")
    assert len(str(rejected.value)) < 300
