"""Parses pending pods, and what a node with sized pods can give to them."""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from gputopo.api.tuning import Amounts
from gputopo_kube.document import Document
from gputopo_kube.node_match import has_rules_between_pods, node_rules, pod_rules
from gputopo_kube.podmodel import PodError, PodObject, parse_pod_object
from gputopo_kube.podrequests import counted_requests
from gputopo_kube.pods import view_of
from gputopo_operator.model.workloads import NodeOffer, WaitingPod

_REASONS: Final = ("Insufficient cpu", "Insufficient memory")


def parse_waiting_pod(raw: Document, resource: str) -> WaitingPod | None:
    """Return a pending pod that a node rejects only for CPU or memory; None for any other pod.

    gputopo does not evaluate affinity between pods, topology spread and resource claims. So the
    result is None for a pod with any of these rules.
    """
    try:
        pod = parse_pod_object(raw)
    except PodError:
        return None
    spec = raw["spec"]
    if not _needs_amounts(pod) or has_rules_between_pods(spec) or pod.spec.resource_claims:
        return None
    view = view_of(pod, resource)
    if view.node is not None or view.deleting or raw["status"].get("nominatedNodeName"):
        return None  # bound, ended, or preemption makes the capacity available
    return WaitingPod(
        uid=view.uid,
        key=view.key,
        requests=counted_requests(pod),
        gpus=view.most_gpus,
        spec=pod_rules(spec),
        priority=view.priority,
        created=pod.metadata.creation_timestamp or "",
    )


def parse_offer(
    node: Document, allocatable: Counter[str], counted: Iterable[Counter[str]], spare: Amounts
) -> NodeOffer:
    """Return what a node can give to pending pods.

    Args:
        node: the Node.
        allocatable: what kubelet offers to pods, in thousandths, by resource.
        counted: requests that kube-scheduler counts for each pod of the node, like ``allocatable``.
        spare: see :class:`NodeOffer`.
    """
    free, pods = Counter(allocatable), 0
    for each in counted:
        free.subtract(each)
        pods += 1
    free["pods"] -= 1000 * pods
    return NodeOffer(node_rules(node), dict(free), spare)


def _needs_amounts(pod: PodObject) -> bool:
    """Return whether kube-scheduler has found a node that lacks only CPU or memory."""
    scheduled = pod.status.unschedulable
    if scheduled is None or scheduled.reason != "Unschedulable":
        return False
    return any(reason in (scheduled.message or "") for reason in _REASONS)
