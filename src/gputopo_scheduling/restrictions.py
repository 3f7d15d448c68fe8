"""Which free GPUs of a node one pod may not use, and why.

A restriction is a constraint, not a preference. The GPUs stay free for other pods, so they count
as free in the preserved bandwidth and in the fragmentation. Pods are restricted by the NUMA nodes
that kubelet takes (:mod:`gputopo_scheduling.numa_limits`), and by the pods that they avoid
(annotation ``gputopo.io/avoid``), as by ``podAntiAffinity`` of Kubernetes:

- A rule concerns pods of the same namespace that have GPUs.
- It holds in both directions: a running pod with a rule also keeps matching new pods off.
- A pod that has ended still counts until its containers are known to have stopped.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from gputopo.api.avoid import AvoidRule, Labels, known_avoid
from gputopo.topology.model import GpuMask, NodeTopology
from gputopo.utility.communication import sockets, sockets_of
from gputopo_cluster.occupants import Occupant
from gputopo_cluster.usage import NodeState, NodeUsage, Restriction, RestrictionKind
from gputopo_kube.pods import PodView
from gputopo_scheduling.numa_limits import limit_to_numa


@dataclass(frozen=True, slots=True)
class AvoidingPod:
    """The part of a pod that decides beside which pods it may run.

    Attributes:
        uid: UID of the pod. The pod does not avoid itself.
        labels: labels of the pod.
        rules: the pods that it avoids.
    """

    uid: str
    namespace: str
    labels: Labels
    rules: tuple[AvoidRule, ...]

    @classmethod
    def of(cls, pod: PodView) -> "AvoidingPod":
        """Return this part of a pod."""
        return cls(pod.uid, pod.namespace, pod.labels, known_avoid(pod.annotations))


def restricted_state(usage: NodeUsage, pod: AvoidingPod) -> NodeState:
    """Return the state of a node for a pod; the common state if nothing restricts the pod."""
    state = usage.state
    found = avoid_restriction(usage.topology, usage.occupants, pod)
    if found is None:
        return state
    usable_later = GpuMask(state.free | state.deleted)
    return replace(
        state,
        restrictions=(
            replace(
                found,
                gpus=GpuMask(found.gpus & usable_later),
                lasting=GpuMask(found.lasting & usable_later),
            ),
        ),
    )


def state_for(usage: NodeUsage, pod: PodView) -> NodeState:
    """Return the state of a node for a pod, with all that restricts the pod on this node."""
    return limit_to_numa(restricted_state(usage, AvoidingPod.of(pod)), pod.aligned)


def usable_gpus(usage: NodeUsage, pod: PodView) -> GpuMask | None:
    """Return the free GPUs of a node that a pod may use; None if it may use all of them."""
    state = state_for(usage, pod)
    return state.usable(usage.free) if state.restrictions else None


def may_use(usage: NodeUsage, pod: PodView, gpus: GpuMask) -> bool:
    """Return whether no other pod of the node keeps these GPUs from a pod."""
    found = avoid_restriction(usage.topology, usage.occupants, AvoidingPod.of(pod))
    return found is None or not found.gpus & gpus


def avoid_restriction(
    topology: NodeTopology, occupants: Iterable[Occupant], pod: AvoidingPod
) -> Restriction | None:
    """Return the GPUs beside pods to avoid, or None if there are none.

    A pod whose labels are not known yet counts like one to avoid: another extender is binding it.
    """
    gpus = lasting = 0
    for each, barred in barred_by(topology, occupants, pod):
        gpus |= barred
        lasting |= 0 if each.is_stopping else barred
    if not gpus:
        return None
    return Restriction(RestrictionKind.AVOID, GpuMask(gpus), GpuMask(lasting))


def barred_by(
    topology: NodeTopology, occupants: Iterable[Occupant], pod: AvoidingPod
) -> Iterator[tuple[Occupant, GpuMask]]:
    """Yield the occupants that a pod must avoid, or that avoid it, and the GPUs beside them."""
    for each in occupants:
        if each.uid != pod.uid and each.key.namespace == pod.namespace:
            gpus = _barred(topology, each, pod)
            if gpus:
                yield each, GpuMask(gpus)


def _barred(topology: NodeTopology, occupant: Occupant, pod: AvoidingPod) -> int:
    """Return the GPUs of the node that an occupant keeps from the pod."""
    if occupant.pod is None:
        return topology.mask
    theirs = AvoidingPod.of(occupant.pod)
    levels = {rule.level for rule in pod.rules if rule.matches(theirs.labels)}
    levels |= {rule.level for rule in theirs.rules if rule.matches(pod.labels)}
    if "Node" in levels or (levels and occupant.unknown):
        return topology.mask
    if not levels:
        return 0
    return sockets_of(occupant.gpus, sockets(topology))
