"""Labels and taints that permit a pod on a node, compared with the rules of kube-scheduler."""

from typing import Any

import pytest

from gputopo_kube.node_match import has_rules_between_pods, is_permitted

LABELS = {"zone": "a", "gpus": "8"}


def node(*taints: dict[str, Any], unschedulable: bool = False) -> dict[str, Any]:
    spec = {"taints": [*taints], "unschedulable": unschedulable}
    return {"metadata": {"name": "n1", "labels": LABELS}, "spec": spec}


def affinity(**term: Any) -> dict[str, Any]:
    required = {"nodeSelectorTerms": [term]}
    kind = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return {"affinity": kind}


def requirement(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": [*values]}


@pytest.mark.parametrize(("zone", "expected"), [("a", True), ("b", False)])
def test_node_selector_must_match(zone: str, *, expected: bool) -> None:
    assert is_permitted({"nodeSelector": {"zone": zone}}, node()) is expected


@pytest.mark.parametrize(
    ("key", "operator", "values", "expected"),
    [
        ("zone", "In", ["a", "b"], True),
        ("zone", "In", ["b"], False),
        ("zone", "NotIn", ["b"], True),
        ("zone", "NotIn", ["a"], False),
        ("zone", "Exists", [], True),
        ("rack", "Exists", [], False),
        ("rack", "DoesNotExist", [], True),
        ("zone", "DoesNotExist", [], False),
        ("gpus", "Gt", ["4"], True),
        ("gpus", "Gt", ["8"], False),
        ("gpus", "Lt", ["16"], True),
        ("gpus", "Lt", ["8"], False),
        ("gpus", "Lt", [], False),
        ("zone", "Gt", ["4"], False),
        ("rack", "Gt", ["4"], False),
        ("zone", "Near", ["a"], False),
    ],
)
def test_required_affinity_must_match(
    key: str, operator: str, values: list[str], *, expected: bool
) -> None:
    spec = affinity(matchExpressions=[requirement(key, operator, *values)])
    assert is_permitted(spec, node()) is expected


def test_affinity_may_name_a_node_and_needs_one_term_that_matches() -> None:
    named = affinity(matchFields=[requirement("metadata.name", "In", "n1")])
    other = affinity(matchFields=[requirement("metadata.name", "In", "n2")])
    assert is_permitted(named, node())
    assert not is_permitted(other, node())
    assert not is_permitted(affinity(), node())
    assert is_permitted({"affinity": {"nodeAffinity": None}}, {})


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({}, False),
        ({"operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "other", "operator": "Exists"}, False),
        ({"key": "gpu", "value": "yes"}, True),
        ({"key": "gpu", "value": "yes", "effect": "NoSchedule"}, True),
        ({"key": "gpu", "value": "no"}, False),
    ],
)
def test_each_taint_must_be_tolerated(toleration: dict[str, Any], *, expected: bool) -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    assert is_permitted({"tolerations": [toleration]}, node(taint)) is expected


def test_preferred_taints_do_not_matter_and_cordoned_nodes_are_excluded() -> None:
    assert is_permitted({}, node({"key": "gpu", "effect": "PreferNoSchedule"}))
    assert not is_permitted({}, node(unschedulable=True))
    every = {"tolerations": [{"operator": "Exists"}]}
    assert is_permitted(every, node(unschedulable=True))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, False),
        ({"affinity": {"podAffinity": {}}}, False),
        (
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [1]}}},
            True,
        ),
        (
            {
                "affinity": {
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [1]}
                }
            },
            True,
        ),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, False),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}, True),
    ],
)
def test_rules_between_pods_are_found(spec: dict[str, Any], *, expected: bool) -> None:
    assert has_rules_between_pods(spec) is expected
