"""Chooses the node whose sized pods make capacity available for a pending pod.

Only one node makes capacity available for each pending pod. Otherwise all nodes of a cluster would
cut their pods for one pending pod, and then raise them again.
"""

from collections.abc import Iterable, Mapping

from gputopo_kube.node_match import is_permitted
from gputopo_kube.podrequests import CPU, MEMORY
from gputopo_operator.model.workloads import NodeOffer, WaitingPod


def choose_node(
    pod: WaitingPod, offers: Mapping[str, NodeOffer], chosen: Mapping[str, Iterable[WaitingPod]]
) -> str | None:
    """Return the node that must cut the least CPU for the pod; None if no node can help.

    Args:
        pod: the pending pod.
        offers: what the nodes can give, by name of the node.
        chosen: the pods for which each node already makes capacity available.
    """
    cuts = {
        name: cut
        for name, offer in offers.items()
        if (cut := _cut(pod, offer, [*chosen.get(name, ())])) is not None
    }
    return min(cuts, key=lambda name: (cuts[name], name), default=None)


def importance(pod: WaitingPod) -> tuple[int, str, str]:
    """Return a key that sorts pods as kube-scheduler does: by priority, then by age."""
    return -pod.priority, pod.created, pod.uid


def _cut(pod: WaitingPod, offer: NodeOffer, earlier: list[WaitingPod]) -> int | None:
    """Return by how much, in thousandths of a CPU, the node must cut its sized pods for the pod.

    The result is None if the pod fits on the node without a cut, or does not fit even with cuts.
    """
    wanted = {**pod.requests, "pods": 1000}
    free = {
        name: offer.free.get(name, 0) - sum(_request(each, name) for each in earlier)
        for name in wanted
    }
    lacking = {name for name, amount in wanted.items() if amount > max(0, free[name])}
    if not lacking or not lacking <= {CPU, MEMORY} or not is_permitted(pod.spec, offer.node):
        return None
    spare = {CPU: offer.spare.milli_cpu, MEMORY: offer.spare.memory * 1000}
    for name in (CPU, MEMORY):
        left = spare[name] - sum(_request(each, name) for each in earlier)
        if wanted.get(name, 0) > max(0, left):
            return None
    return max(0, wanted.get(CPU, 0) - free.get(CPU, 0))


def _request(pod: WaitingPod, resource: str) -> int:
    return 1000 if resource == "pods" else pod.requests.get(resource, 0)
