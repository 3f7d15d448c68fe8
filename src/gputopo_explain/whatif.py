"""Decides where a pod would be placed in a cluster now, and with which figures on other nodes.

The decision uses the functions of the extender's verbs filter, prioritize and bind. kube-scheduler
chooses one node at random if several are equally good.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from gputopo.placement.model import Match, PlacementRequest
from gputopo.placement.paths import surroundings_on_node
from gputopo.placement.place import ranking
from gputopo.placement.score import Candidate
from gputopo.topology.model import GpuMask, GpuUuid, NodeTopology
from gputopo_cluster.topologies import GpuNode
from gputopo_cluster.usage import NodeUsage
from gputopo_explain.objects import ClusterObjects
from gputopo_explain.pending.model import PodExplanation
from gputopo_explain.pending.pods import explain_pod
from gputopo_explain.shared_gpus import ShareOutlook, outlook
from gputopo_explain.snapshot import ClusterSnapshot
from gputopo_kube.document import Document
from gputopo_kube.pods import PodView, parse_pod
from gputopo_scheduling.best_nodes import best_nodes
from gputopo_scheduling.cpu_shares import CpuShares, cpu_shares, preferred, ranks_by_share, scores
from gputopo_scheduling.evaluation import Evaluation
from gputopo_scheduling.restrictions import usable_gpus
from gputopo_scheduling.share_options import shared_gpu
from gputopo_scheduling.sharing_state import sharing_state


@dataclass(frozen=True, slots=True)
class NodeOption:
    """Nodes on which the pod would get equal GPUs: their links and free GPUs are equal.

    Attributes:
        score: 0 to 10, as the extender returns it to kube-scheduler.
        best: whether kube-scheduler would choose one of these nodes.
        cpu_share: CPUs in thousandths that gputopo guarantees to a pod that it sizes; None if it
            does not size the pod, or if the share is unknown.
    """

    nodes: Sequence[str]
    match: Match
    lost_mb_per_s: int
    free_gpus: int
    score: int
    best: bool
    cpu_share: int | None


@dataclass(frozen=True, slots=True)
class ChosenNode:
    """The node that the pod would get.

    Attributes:
        equally_good: all nodes of which kube-scheduler would choose one, with this node.
        free: GPUs that are free before the pod is placed.
        uuids: the GPUs of the pod in rank order, or its share of a GPU.
        request: what the pod requests.
        matches: the chosen GPUs and the next best sets of the node, best first.
        shared: the prediction for the GPU that the pod would share; None if the pod would have it
            alone.
    """

    node: str
    equally_good: Sequence[str]
    topology: NodeTopology
    free: GpuMask
    uuids: Sequence[GpuUuid]
    request: PlacementRequest
    matches: Sequence[Match]
    shared: ShareOutlook | None = None


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Where a pod would be placed.

    Attributes:
        explanation: the nodes that do not fit, and what would have to end if no node fits.
        options: the nodes that fit, the best first.
        chosen: None if no node fits, or if the pod waits for a better placement.
    """

    explanation: PodExplanation
    options: Sequence[NodeOption] = ()
    chosen: ChosenNode | None = None


def place_live(
    pod: Document, objects: ClusterObjects, *, only: str | None = None, runners_up: int = 0
) -> WhatIf:
    """Return where the pod would be placed now.

    Args:
        pod: a pod that does not exist yet, or that is not bound.
        objects: the cluster.
        only: consider only this node.
        runners_up: how many next best sets of the chosen node to return.

    Raises:
        PodError: if the object is not a valid pod; the message names the field.
    """
    explanation = explain_pod(pod, objects)
    nodes = [node for node in explanation.fitting if only in (None, node)]
    request = explanation.request
    if request is None or not nodes:
        return WhatIf(explanation)
    view = parse_pod(pod, objects.installation.resource)
    request = objects.with_surroundings(request, view)
    found = objects.snapshot.evaluate(request, nodes, objects.surroundings, view)
    shares = _shares(view, request, nodes, objects.snapshot)
    ranks = ranks_by_share(found, shares, sensitive=request.sensitive)
    equally_good = best_nodes(
        preferred(found, ranks), request.size, {}, sensitive=request.sensitive
    )
    usages = objects.snapshot.usages
    known = {name: usage for name, usage in usages.items() if isinstance(usage, NodeUsage)}
    scored = scores(found, ranks, sensitive=request.sensitive)
    options = _options(found, known, shares, scored, {*equally_good})
    chosen = _chosen(equally_good, known, request, runners_up, objects, view)
    return WhatIf(explanation, options, chosen)


def _shares(
    view: PodView, request: PlacementRequest, nodes: Sequence[str], snapshot: ClusterSnapshot
) -> CpuShares:
    known = {
        name: node.sized_capacity
        for name, node in snapshot.nodes.items()
        if isinstance(node, GpuNode)
    }
    return cpu_shares(view, request.size, nodes, known.get)


def _options(
    found: Evaluation,
    usages: Mapping[str, NodeUsage],
    shares: CpuShares,
    scored: Mapping[str, int],
    best: AbstractSet[str],
) -> list[NodeOption]:
    groups: defaultdict[tuple[Hashable, NodeOption], list[str]] = defaultdict(list)
    fits = {key: fit for key, fit in found.results.items() if isinstance(fit, Candidate)}
    for node, key in zip(found.nodes, found.keys, strict=True):
        option = NodeOption(
            (),
            fits[key].match,
            fits[key].lost_mb_per_s,
            usages[node].free.bit_count(),
            scored[node],
            node in best,
            shares.get(node),
        )
        groups[key, option].append(node)
    options = [replace(option, nodes=nodes) for (_, option), nodes in groups.items()]
    return sorted(options, key=lambda each: (not each.best, -each.score, each.nodes[0]))


def _chosen(
    nodes: Sequence[str],
    usages: Mapping[str, NodeUsage],
    request: PlacementRequest,
    runners_up: int,
    objects: ClusterObjects,
    view: PodView,
) -> ChosenNode:
    node = min(nodes)
    usage = usages[node]
    around = surroundings_on_node(request, objects.surroundings[node].neighbours)
    free, usable = usage.free, usable_gpus(usage, view)
    if view.shares:
        state = sharing_state(usage, view, objects.snapshot.sharing)
        free, usable = state.free, state.usable(state.free)
    matches = ranking(usage.topology, free, request, None, around, usable, most=1 + runners_up)
    uuids = [usage.topology.uuid_of[index] for index in matches[0].gpus]
    chosen = ChosenNode(node, nodes, usage.topology, free, uuids, request, matches)
    if not view.shares:
        return chosen
    share = shared_gpu(usage, view, matches[0].gpus[0], objects.snapshot.sharing)
    beside = None if share.option is None else outlook(node, share.option)
    return replace(chosen, uuids=[share.share], shared=beside)
