"""kube-scheduler's bodies, in either case and both modes."""

from typing import Any

import pytest
from pydantic import ValidationError

from gputopo.wire.extender import (
    ExtenderArgs,
    ExtenderBindingArgs,
    bind_result,
    filter_error,
    filter_result,
    priorities,
)

POD = {"metadata": {"name": "p"}}
NODES = {
    "metadata": {"resourceVersion": "7"},
    "items": [{"metadata": {"name": "n1"}}, {"metadata": {"name": "n2"}}],
}


@pytest.mark.parametrize("key", ["NodeNames", "nodeNames", "nodenames"])
def test_names_are_read_in_any_case(key: str) -> None:
    args = ExtenderArgs.model_validate({"Pod": POD, key: ["n1", "n2"]})
    assert args.candidates() == ["n1", "n2"]


@pytest.mark.parametrize("key", ["Nodes", "nodes"])
def test_whole_nodes_are_read_in_any_case(key: str) -> None:
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


def test_a_body_without_a_pod_is_refused() -> None:
    with pytest.raises(ValidationError, match="Pod"):
        ExtenderArgs.model_validate({"NodeNames": ["n1"]})


def test_a_name_that_is_no_string_is_refused() -> None:
    with pytest.raises(ValidationError, match="valid string"):
        ExtenderArgs.model_validate({"Pod": POD, "NodeNames": [1]})


def test_bind_is_read_in_any_case_and_ignores_what_it_does_not_know() -> None:
    pascal = {"PodName": "p", "PodNamespace": "d", "PodUID": "u", "Node": "n1", "More": 1}
    camel = {"podName": "p", "podNamespace": "d", "podUID": "u", "node": "n1"}
    lower = {key.lower(): value for key, value in pascal.items()}
    read = [ExtenderBindingArgs.model_validate(body) for body in (pascal, camel, lower)]
    assert read == [read[0]] * 3
    assert (read[0].pod_name, read[0].pod_namespace) == ("p", "d")
    assert (read[0].pod_uid, read[0].node) == ("u", "n1")


def test_bind_without_a_node_is_refused() -> None:
    with pytest.raises(ValidationError, match="Node"):
        ExtenderBindingArgs.model_validate({"PodName": "p", "PodNamespace": "d", "PodUID": "u"})


def test_filter_answers_with_names_where_names_were_sent() -> None:
    args = ExtenderArgs.model_validate({"Pod": POD, "NodeNames": ["n1", "n2", "n3"]})
    reply = filter_result(args, ["n2"], failed={"n1": "2 free"}, unresolvable={"n3": "too small"})
    assert reply == {
        "Nodes": None,
        "NodeNames": ["n2"],
        "FailedNodes": {"n1": "2 free"},
        "FailedAndUnresolvableNodes": {"n3": "too small"},
        "Error": "",
    }


def test_filter_answers_with_nodes_where_nodes_were_sent() -> None:
    args = ExtenderArgs.model_validate({"Pod": POD, "Nodes": NODES})
    reply = filter_result(args, ["n2"], failed={"n1": "2 free"}, unresolvable={})
    assert reply["Nodes"] == {
        "metadata": {"resourceVersion": "7"},
        "items": [{"metadata": {"name": "n2"}}],
    }
    assert reply["NodeNames"] is None


def test_a_filter_that_could_not_decide_says_why() -> None:
    reply = filter_error("not ready")
    assert reply["Error"] == "not ready"
    assert (reply["Nodes"], reply["NodeNames"]) == (None, None)


def test_scores_are_told_by_host() -> None:
    assert priorities({"n1": 10, "n2": 0}) == [
        {"Host": "n1", "Score": 10},
        {"Host": "n2", "Score": 0},
    ]


def test_bound_is_no_error() -> None:
    assert bind_result() == {"Error": ""}
    assert bind_result("gone") == {"Error": "gone"}


@pytest.mark.parametrize("items", ["n1", [None], [{}], [{"metadata": {}}], [{"metadata": "n1"}]])
def test_nodes_without_names_are_refused_before_anybody_reads_them(items: object) -> None:
    with pytest.raises(ValidationError, match=r"metadata\.name"):
        ExtenderArgs.model_validate({"Pod": POD, "Nodes": {"items": items}})


@pytest.mark.parametrize(
    "items", [7, ["n1"], [{}], [{"metadata": None}], [{"metadata": {"name": 1}}]]
)
def test_nodes_without_names_are_refused(items: object) -> None:
    body = {"Pod": POD, "Nodes": {"items": items}}
    with pytest.raises(ValidationError, match=r"metadata\.name"):
        ExtenderArgs.model_validate(body)
