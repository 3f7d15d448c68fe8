"""Puts the explanation of a pending pod into one sentence, with what a person can do."""

from collections.abc import Sequence
from typing import Final

from gputopo.api.names import GROUP, MAX_WAIT_ANNOTATION
from gputopo.api.waiting import as_fraction
from gputopo_cluster.usage import NodeUsage
from gputopo_explain.objects import ClusterObjects
from gputopo_explain.pending.model import NodeGroup, PlacementWait, Release
from gputopo_explain.pending.reasons import NodeReasons, PodNeeds
from gputopo_explain.text import counted
from gputopo_kube.document import Document
from gputopo_kube.pods import PodView

Sentences = tuple[str, str | None]
"""The explanation, and what a person can do; None if waiting is enough."""

WAIT_REMEDY: Final = (
    f'wait; to place the pod at once, create it again with {MAX_WAIT_ANNOTATION}: "0", or its '
    "GPUJob with placement.maxWaitSeconds: 0"
)


def rejected_remedy(view: PodView, pod: Document) -> str:
    """Return how the request of a rejected pod is corrected."""
    owner = _owner_to_correct(pod)
    where = f"pod template of the {owner}" if owner else f"manifest of pod {view.name}"
    return f"correct the resources or the {GROUP} annotations in the {where}; create the pod again"


def _owner_to_correct(pod: Document) -> str | None:
    """Return the controller that has the template: of a ReplicaSet web-5b9 the Deployment web."""
    metadata = pod["metadata"]
    for owner in metadata.get("ownerReferences") or ():
        kind, name = str(owner.get("kind")), str(owner.get("name"))
        suffix = f"-{(metadata.get('labels') or {}).get('pod-template-hash')}"
        if kind == "ReplicaSet" and name.endswith(suffix):
            return f"Deployment {name.removesuffix(suffix)}"
        return f"{kind} {name}"
    return None


def impossible(needs: PodNeeds, reasons: NodeReasons, objects: ClusterObjects) -> Sentences:
    """Describe a pod that fits no node, whatever other pods end."""
    snapshot, size = objects.snapshot, needs.request.size
    usages = {n: it for n, it in snapshot.usages.items() if isinstance(it, NodeUsage)}
    if not usages:
        return (
            "the cluster has no node with a readable GPUTopology",
            "install the node agent on the GPU nodes; `gputopo doctor` shows what is wrong",
        )
    if _shares(needs) and not any(usage.most_pods_per_gpu for usage in usages.values()):
        return (
            "the pod requests a share of a GPU, and no node offers shares",
            (
                "ask the administrator for sharing.enabled=true of gputopo's chart, or request "
                f"{needs.resource}"
            ),
        )
    largest = max(len(usage.topology.gpus) for usage in usages.values())
    if size > largest:
        return (
            f"the pod needs {counted(size, 'GPU')}, the largest node has {largest}",
            f"request at most {counted(largest, 'GPU')} in one pod, or add a larger node",
        )
    healthy = max(usage.healthy.bit_count() for usage in usages.values())
    if size > healthy:
        return (
            f"the pod needs {counted(size, 'GPU')}, no node has more than {healthy} healthy GPUs",
            "`gputopo doctor` shows why GPUs are unhealthy and how to repair them",
        )
    remedy = "change the rules or requests of the pod, or the labels and taints of a node"
    if any(
        usage.healthy.bit_count() < size <= len(usage.topology.gpus) for usage in usages.values()
    ):
        remedy += "; `gputopo doctor` shows how to repair unhealthy GPUs"
    texts = {each.reason for node in usages for each in reasons.obstacles.get(node, ())}
    return (
        f"no node can take the pod, even if all other pods end: {'; '.join(sorted(texts))}",
        remedy,
    )


def waiting(needs: PodNeeds, releases: Sequence[Release], groups: Sequence[NodeGroup]) -> str:
    """Describe a pod that fits later. ``groups`` begin with those that are not permanent."""
    size = "a share of a GPU" if _shares(needs) else counted(needs.request.size, "GPU")
    if not releases:
        return f"no node has {size} for the pod now: {groups[0].reason}"
    best = releases[0]
    count = sum(not pod.stopping for pod in best.pods)
    if not count:
        return f"the pod gets {size} on {best.node} when pods that are being deleted have ended"
    pods = "1 pod ends" if count == 1 else f"{count} pods end"
    where = "" if _shares(needs) else " on one node"
    return f"the pod waits for {size}{where}: it fits {best.node} when {pods}"


def postponed(wait: PlacementWait) -> str:
    """Describe a pod that waits for a better placement."""
    return (
        f"the pod waits for {wait.value} {as_fraction(wait.target)}: it would get "
        f"{as_fraction(wait.now)} now, and at best {as_fraction(wait.then)} when other pods end; "
        f"until {wait.until} at most"
    )


def _shares(needs: PodNeeds) -> bool:
    return needs.pod is not None and needs.pod.shares
