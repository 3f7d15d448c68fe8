"""kube-scheduler's bodies, in either case and both modes."""

from typing import Any

import pytest
from pydantic import ValidationError

from gputopo_extender.protocol import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderPreemptionArgs,
    bind_result,
    filter_error,
    filter_result,
    preempt_result,
    priorities,
)

POD = {"metadata": {"name": "p"}}
NODES = {
    "metadata": {"resourceVersion": "7"},
    "items": [{"metadata": {"name": "n1"}}, {"metadata": {"name": "n2"}}],
}


@pytest.mark.parametrize("key", ["NodeNames", "nodeNames", "nodenames"])
def test_names_are_parsed_in_any_case(key: str) -> None:
    args = ExtenderArgs.model_validate({"Pod": POD, key: ["n1", "n2"]})
    assert args.candidates() == ["n1", "n2"]


@pytest.mark.parametrize("key", ["Nodes", "nodes"])
def test_whole_nodes_are_parsed_in_any_case(key: str) -> None:
    args = ExtenderArgs.model_validate({"pod": POD, key: NODES, "NodeNames": None})
    assert args.candidates() == ["n1", "n2"]


@pytest.mark.parametrize("nodes", [None, {}, {"items": None}])
def test_no_nodes_are_no_candidates(nodes: dict[str, Any] | None) -> None:
    args = ExtenderArgs.model_validate({"Pod": POD, "Nodes": nodes})
    assert args.candidates() == []
    assert filter_result(args, [], failed={}, unresolvable={})["Nodes"] == {
        **(nodes or {}),
        "items": [],
    }


def test_body_without_a_pod_is_rejected() -> None:
    with pytest.raises(ValidationError, match="Pod"):
        ExtenderArgs.model_validate({"NodeNames": ["n1"]})


def test_name_that_is_not_a_string_is_rejected() -> None:
    with pytest.raises(ValidationError, match="valid string"):
        ExtenderArgs.model_validate({"Pod": POD, "NodeNames": [1]})


def test_bind_is_parsed_in_any_case_and_ignores_unknown_fields() -> None:
    pascal = {"PodName": "p", "PodNamespace": "d", "PodUID": "u", "Node": "n1", "More": 1}
    camel = {"podName": "p", "podNamespace": "d", "podUID": "u", "node": "n1"}
    lower = {key.lower(): value for key, value in pascal.items()}
    read = [ExtenderBindingArgs.model_validate(body) for body in (pascal, camel, lower)]
    assert read == [read[0]] * 3
    assert (read[0].pod_name, read[0].pod_namespace) == ("p", "d")
    assert (read[0].pod_uid, read[0].node) == ("u", "n1")


def test_bind_without_a_node_is_rejected() -> None:
    with pytest.raises(ValidationError, match="Node"):
        ExtenderBindingArgs.model_validate({"PodName": "p", "PodNamespace": "d", "PodUID": "u"})


def test_filter_returns_names_for_names() -> None:
    args = ExtenderArgs.model_validate({"Pod": POD, "NodeNames": ["n1", "n2", "n3"]})
    reply = filter_result(args, ["n2"], failed={"n1": "2 free"}, unresolvable={"n3": "too small"})
    assert reply == {
        "Nodes": None,
        "NodeNames": ["n2"],
        "FailedNodes": {"n1": "2 free"},
        "FailedAndUnresolvableNodes": {"n3": "too small"},
        "Error": "",
    }


def test_filter_returns_nodes_for_nodes() -> None:
    args = ExtenderArgs.model_validate({"Pod": POD, "Nodes": NODES})
    reply = filter_result(args, ["n2"], failed={"n1": "2 free"}, unresolvable={})
    assert reply["Nodes"] == {
        "metadata": {"resourceVersion": "7"},
        "items": [{"metadata": {"name": "n2"}}],
    }
    assert reply["NodeNames"] is None


def test_filter_error_has_the_reason() -> None:
    reply = filter_error("not ready")
    assert reply["Error"] == "not ready"
    assert (reply["Nodes"], reply["NodeNames"]) == (None, None)


def test_scores_are_returned_by_host() -> None:
    assert priorities({"n1": 10, "n2": 0}) == [
        {"Host": "n1", "Score": 10},
        {"Host": "n2", "Score": 0},
    ]


def test_bind_result_without_error_is_empty() -> None:
    assert bind_result() == {"Error": ""}
    assert bind_result("gone") == {"Error": "gone"}


@pytest.mark.parametrize("items", ["n1", [None], [{}], [{"metadata": {}}], [{"metadata": "n1"}]])
def test_nodes_without_names_are_rejected_before_use(items: object) -> None:
    with pytest.raises(ValidationError, match=r"metadata\.name"):
        ExtenderArgs.model_validate({"Pod": POD, "Nodes": {"items": items}})


@pytest.mark.parametrize(
    "items", [7, ["n1"], [{}], [{"metadata": None}], [{"metadata": {"name": 1}}]]
)
def test_nodes_without_names_are_rejected(items: object) -> None:
    body = {"Pod": POD, "Nodes": {"items": items}}
    with pytest.raises(ValidationError, match=r"metadata\.name"):
        ExtenderArgs.model_validate(body)


WHOLE = {"NodeNameToVictims": {"n1": {"Pods": [{"metadata": {"uid": "u"}}], "NumPDBViolations": 2}}}
META = {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "u"}], "NumPDBViolations": 2}}}
CAMEL = {"nodeNameToMetaVictims": {"n1": {"pods": [{"uid": "u"}], "numPDBViolations": 2}}}


@pytest.mark.parametrize("body", [WHOLE, META, CAMEL, {**META, "NodeNameToVictims": None}])
def test_victims_are_parsed_in_both_modes_and_any_case(body: dict[str, Any]) -> None:
    offers = ExtenderPreemptionArgs.model_validate({"Pod": POD, **body}).offers()
    assert {node: (it.pods, it.pdb_violations) for node, it in offers.items()} == {
        "n1": (("u",), 2)
    }
    assert preempt_result(offers) == META


def test_no_victims_are_an_empty_offer() -> None:
    assert ExtenderPreemptionArgs.model_validate({"Pod": POD}).offers() == {}
    none = {"NodeNameToMetaVictims": {"n1": {"Pods": None}}}
    offers = ExtenderPreemptionArgs.model_validate({"Pod": POD, **none}).offers()
    assert offers["n1"].pods == ()


@pytest.mark.parametrize(
    "victims",
    [
        None,
        [],
        {"Pods": [None]},
        {"Pods": [{"UID": ""}]},
        {"Pods": [{"UID": 7}]},
        {"Pods": "u"},
        {"Pods": [{"metadata": {}}]},
        {"NumPDBViolations": "many"},
    ],
)
def test_invalid_victims_are_rejected(victims: object) -> None:
    with pytest.raises(ValidationError, match=r"NodeNameToMetaVictims\.n1"):
        ExtenderPreemptionArgs.model_validate(
            {"Pod": POD, "NodeNameToMetaVictims": {"n1": victims}}
        )
