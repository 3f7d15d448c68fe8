"""Finds out which nodes kube-scheduler's own filters exclude for a pod, and why.

kube-scheduler calls the extender only for nodes that pass its own filters. This module repeats
those that depend on the Node and on the sums of requests: labels, taints, CPU, memory, number of
pods and extended resources. ``unchecked_rules`` names the filters that a pod needs and that are not
repeated here. Amounts are thousandths of the unit of the resource.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from gputopo_kube.document import Document
from gputopo_kube.node_match import (
    has_rules_between_pods,
    matches_labels,
    node_rules,
    untolerated_taints,
)
from gputopo_kube.podmodel import known_parts
from gputopo_kube.podrequests import CPU, MEMORY, counted_requests, thousandths
from gputopo_kube.podstatus import ENDED_PHASES

_PODS: Final = "pods"
_ONE_POD: Final = 1000
_CORDONED: Final = "node.kubernetes.io/unschedulable"


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why kube-scheduler does not place a pod on a node.

    Attributes:
        permanent: whether the obstacle stays when all other pods of the node end.
    """

    reason: str
    permanent: bool


@dataclass(frozen=True, slots=True)
class Machine:
    """A Node as the filters of kube-scheduler see it.

    Attributes:
        rules: labels, taints and name of the Node.
        allocatable: what pods can request on the node in total, by resource.
        requested: what the pods that are bound to the node request.
        by_uid: what each of these pods requests, by its UID.
    """

    rules: Document
    allocatable: Counter[str]
    requested: Counter[str] = field(default_factory=Counter)
    by_uid: Mapping[str, Counter[str]] = field(default_factory=dict)


def machines_of(nodes: Iterable[Document], pods: Iterable[Document]) -> dict[str, Machine]:
    """Return the nodes by name, with the requests of all ``pods`` that are bound to them."""
    bound: dict[str, dict[str, Counter[str]]] = {}
    for pod in pods:
        node = (pod.get("spec") or {}).get("nodeName")
        if node and (pod.get("status") or {}).get("phase") not in ENDED_PHASES:
            bound.setdefault(node, {})[str(pod["metadata"].get("uid"))] = requests_of(pod)
    return {
        node["metadata"]["name"]: Machine(
            node_rules(node),
            thousandths((node.get("status") or {}).get("allocatable") or {}),
            sum(bound.get(node["metadata"]["name"], {}).values(), Counter()),
            bound.get(node["metadata"]["name"], {}),
        )
        for node in nodes
    }


def requests_of(pod: Document) -> Counter[str]:
    """Return what kube-scheduler counts for a pod; an invalid pod counts with its valid parts."""
    return counted_requests(known_parts(pod)) + Counter({_PODS: _ONE_POD})


def rules_against(pod_spec: Document, machine: Machine) -> Iterator[Obstacle]:
    """Yield the labels and taints that keep the pod off the node."""
    if not matches_labels(pod_spec, machine.rules):
        reason = "nodeSelector or required node affinity of the pod does not match the node"
        yield Obstacle(reason, permanent=True)
    for taint in untolerated_taints(pod_spec, machine.rules):
        if taint["key"] == _CORDONED:
            yield Obstacle("the node is cordoned (kubectl uncordon)", permanent=True)
        else:
            value = f"={taint['value']}" if taint.get("value") else ""
            text = f"{taint['key']}{value}:{taint.get('effect')}"
            yield Obstacle(f"the pod does not tolerate the taint {text}", permanent=True)


def shortages(
    needed: Mapping[str, int], machine: Machine, ended: Iterable[str] = ()
) -> Iterator[Obstacle]:
    """Yield the resources of which the node has too little for a pod.

    Args:
        needed: what the pod requests.
        machine: the node.
        ended: UIDs of pods of which the function assumes that they have ended.
    """
    freed: Counter[str] = Counter()
    for uid in ended:
        freed += machine.by_uid.get(uid, Counter())
    for name, amount in sorted(needed.items()):
        total = machine.allocatable[name]
        if amount > total:
            text = f"{name}: the pod needs {amount_text(name, amount)}, the node has "
            yield Obstacle(text + amount_text(name, total) + " in total", permanent=True)
        elif amount > total - machine.requested[name] + freed[name]:
            reason = f"{name}: the pod needs {amount_text(name, amount)}, less is free"
            yield Obstacle(reason, permanent=False)


def unchecked_rules(pod_spec: Document) -> list[str]:
    """Return which rules of the pod restrict its nodes and are not considered here."""
    volumes = pod_spec.get("volumes") or ()
    containers = [*(pod_spec.get("containers") or ()), *(pod_spec.get("initContainers") or ())]
    ports = (port for each in containers for port in each.get("ports") or ())
    found = {
        "affinity to other pods or topology spread": has_rules_between_pods(pod_spec),
        "nodes of its volumes": any(
            each.get("persistentVolumeClaim") or each.get("ephemeral") for each in volumes
        ),
        "host ports": any(port.get("hostPort") for port in ports),
        "resource claims": bool(pod_spec.get("resourceClaims")),
    }
    return [rule for rule, applies in found.items() if applies]


def amount_text(resource: str, thousandth: int) -> str:
    """Return an amount for people: memory in MiB, other resources in their unit.

    >>> amount_text("cpu", 1500), amount_text("memory", 2**30 * 1000)
    ('1.5', '1024Mi')
    """
    if resource == MEMORY or resource.endswith("storage"):
        return f"{thousandth // 1000 // 2**20}Mi"
    return f"{Decimal(thousandth) / 1000:f}" if resource == CPU else str(thousandth // 1000)
