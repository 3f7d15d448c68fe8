"""Decides whether the labels and taints of a node permit a pod, as kube-scheduler does.

The functions expect objects that the API server has checked. :class:`NodeAffinity` checks the
types of a template or manifest that it has not checked.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from gputopo.api.model import ApiModel
from gputopo_kube.document import Document

_UNSCHEDULABLE: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_POD_RULES: Final = ("nodeSelector", "affinity", "tolerations")
_NODE_RULES: Final = ("taints", "unschedulable")


class _Requirement(ApiModel):
    key: str
    operator: str
    values: list[str] | None = None


class _NodeTerm(ApiModel):
    match_expressions: list[_Requirement] | None = None
    match_fields: list[_Requirement] | None = None


class _NodeSelector(ApiModel):
    node_selector_terms: list[_NodeTerm]


class NodeAffinity(ApiModel):
    """``spec.affinity.nodeAffinity`` of a pod, as far as it keeps the pod off nodes."""

    required_during_scheduling_ignored_during_execution: _NodeSelector | None = None


def pod_rules(pod_spec: Document) -> Document:
    """Return the fields of a pod's spec that ``is_permitted`` uses."""
    return {name: pod_spec[name] for name in _POD_RULES if pod_spec.get(name)}


def node_rules(node: Document) -> Document:
    """Return the fields of a Node that ``is_permitted`` uses."""
    metadata, spec = node["metadata"], node.get("spec") or {}
    return {
        "metadata": {"name": metadata["name"], "labels": metadata.get("labels") or {}},
        "spec": {name: spec[name] for name in _NODE_RULES if spec.get(name)},
    }


def is_permitted(pod_spec: Document, node: Document) -> bool:
    """Return whether node selector, required node affinity and tolerations permit this node."""
    return matches_labels(pod_spec, node) and next(untolerated_taints(pod_spec, node), None) is None


def matches_labels(pod_spec: Document, node: Document) -> bool:
    """Return whether node selector and required node affinity permit this node."""
    metadata = node.get("metadata") or {}
    labels = metadata.get("labels") or {}
    wanted = pod_spec.get("nodeSelector") or {}
    if any(labels.get(name) != value for name, value in wanted.items()):
        return False
    return _matches_affinity(pod_spec, labels, metadata.get("name", ""))


def untolerated_taints(pod_spec: Document, node: Document) -> Iterator[Mapping[str, Any]]:
    """Yield the taints of a node that keep the pod off the node; a cordoned node has one too."""
    spec = node.get("spec") or {}
    taints = [*(spec.get("taints") or ())]
    if spec.get("unschedulable"):
        taints.append(_UNSCHEDULABLE)
    tolerations = pod_spec.get("tolerations") or ()
    for taint in taints:
        is_soft = taint.get("effect") == "PreferNoSchedule"
        if not is_soft and not any(_tolerates(it, taint) for it in tolerations):
            yield taint


def has_rules_between_pods(pod_spec: Document) -> bool:
    """Return whether other pods decide on which nodes this pod may run.

    Such rules are required affinity to or against other pods, and required topology spread.
    """
    affinity = pod_spec.get("affinity") or {}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return any(
        (affinity.get(kind) or {}).get(required) for kind in ("podAffinity", "podAntiAffinity")
    ) or any(
        each.get("whenUnsatisfiable") == "DoNotSchedule"
        for each in pod_spec.get("topologySpreadConstraints") or ()
    )


def _matches_affinity(pod_spec: Document, labels: Mapping[str, str], name: str) -> bool:
    affinity = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not required:
        return True
    fields = {"metadata.name": name}
    return any(
        (term.get("matchExpressions") or term.get("matchFields"))
        and all(_matches(each, labels) for each in term.get("matchExpressions") or ())
        and all(_matches(each, fields) for each in term.get("matchFields") or ())
        for term in required.get("nodeSelectorTerms") or ()
    )


def _matches(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value, values = labels.get(requirement["key"]), requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return _compares(operator, value, values)
        case _:
            return False


def _compares(operator: str, value: str | None, values: Sequence[str]) -> bool:
    try:
        number, bound = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return number > bound if operator == "Gt" else number < bound


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Return whether a toleration permits a taint; an empty key or effect permits all of them."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    if toleration.get("operator") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (
        taint.get("value") or ""
    )
