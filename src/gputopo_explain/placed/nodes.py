"""Describes in words how the chosen node compared with the other nodes."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gputopo.api.replay import RecordedNodes
from gputopo_scheduling.evaluation import MisfitKind

UNKNOWN_NODES: Final = (
    "unknown: another scheduler pod became leader between filter and bind, or the pod was bound "
    "without filter"
)

MISFIT_WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        MisfitKind.BUSY: "with too few free GPUs",
        MisfitKind.DELETED_PODS: "with GPUs in use by processes of deleted pods",
        MisfitKind.UNOBSERVED: "with GPUs of other schedulers' pods that no agent reports yet",
        MisfitKind.TOO_SMALL: "with too few GPUs",
        MisfitKind.UNHEALTHY: "with too few healthy GPUs",
        MisfitKind.NO_TOPOLOGY: "without GPUTopology",
        MisfitKind.UNREADABLE: "with an unreadable GPUTopology",
        MisfitKind.BLOCKED: "where no GPU may be given to a pod",
        MisfitKind.NOT_READY: "that were not ready",
        MisfitKind.RESERVED_ELSEWHERE: "while the pod was being bound to another node",
        MisfitKind.REJECTED: "for which the request was rejected",
        MisfitKind.AVOID: "with free GPUs only beside pods to avoid",
        MisfitKind.POSTPONED: "with a value below the one that the pod waited for",
        MisfitKind.HELD: "held for a pod that had waited for longer",
        MisfitKind.NUMA_WAITING: "whose kubelet was still admitting or releasing another pod",
        MisfitKind.NUMA_BUSY: "with too little free on the same NUMA nodes for kubelet's policy",
        MisfitKind.NUMA_SHAPE: "whose NUMA nodes do not fit the pod by kubelet's policy",
        MisfitKind.SHARED: "with too few free GPUs beside those that pods share",
        MisfitKind.NOT_SHARED: "without an idle GPU and without one that the pod may share",
    }
)
"""Kinds of misfits, after a number of nodes."""


def node_sentences(node: str, nodes: RecordedNodes) -> tuple[str, ...]:
    """Return how the node compared, in one or two sentences.

    Example: ``n1 was one of the 2 best of 3 nodes on which the pod fitted; score 10 of 10``
    """
    fitted = f"{nodes.fitted} nodes"
    if nodes.fitted == 1:
        place = f"{node} was the only node on which the pod fitted"
    elif nodes.better:
        were = "was" if nodes.better == 1 else "were"
        place = (
            f"{nodes.better} of {fitted} on which the pod fitted {were} better than {node}, and "
            f"kube-scheduler preferred {node} for another reason, for example affinity"
        )
    elif nodes.equal:
        place = f"{node} was one of the {nodes.equal + 1} best of {fitted} on which the pod fitted"
    else:
        place = f"{node} was the best of {fitted} on which the pod fitted"
    first = f"{place}; score {nodes.score} of 10"
    unfit = ", ".join(
        f"{count} {MISFIT_WORDS.get(kind, kind)}" for kind, count in nodes.misfits.items()
    )
    return (first, f"did not fit: {unfit}") if unfit else (first,)
