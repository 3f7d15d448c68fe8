"""Ledgers of nodes that offer shares, and the decisions of the extender about sharing pods."""

import time
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from gputopo.placement.model import Match
from gputopo.sharing.policy import SharingPolicy
from gputopo.topology.model import NodeTopology
from gputopo_cluster.topologies import parse_gpu_node
from gputopo_cluster.usage import NodeUsage
from gputopo_extender.fencing.decide import decide
from gputopo_extender.state.decision import Decision
from gputopo_extender.state.ledger import Ledger
from gputopo_kube.pods import PodView
from gputopo_scheduling.node_fits import match_on
from gputopo_scheduling.surroundings import parse_workload
from support.builders.objects import Document
from support.builders.requests import pod_view, request_in
from support.builders.shares import sharing_topology
from support.builders.sharing_facts import pairs
from support.builders.topologies import node as small_node

TOPOLOGY = small_node(0, 1, 2)
UUIDS = [gpu.uuid for gpu in TOPOLOGY.gpus]


def sharing_ledger(
    *pods: Document,
    topology: NodeTopology = TOPOLOGY,
    policy: SharingPolicy | None = None,
    clock: Callable[[], float] = time.monotonic,
    **fields: Any,
) -> Ledger:
    """Return a ledger with node n1, these pods, and the facts of :func:`pairs`."""
    ledger = Ledger(clock)
    ledger.interference.set_sharing_policy(policy or SharingPolicy())
    model = topology.gpus[0].model
    ledger.interference.replace([parse_workload(each) for each in pairs(model=model)])
    ledger.put_topology(parse_gpu_node(sharing_topology("n1", topology, **fields)))
    for each in pods:
        ledger.put_pod(pod_view(each))
    return ledger


def usage_of(ledger: Ledger, node: str = "n1") -> NodeUsage:
    """Return the usage of a node."""
    found = ledger.usage(node)
    assert isinstance(found, NodeUsage)
    return found


def decided(ledger: Ledger, view: PodView, node: str = "n1") -> Decision | None:
    """Return the decision of bind for a pod on a node; None if it does not fit there."""
    usage, request = usage_of(ledger, node), request_in(view)
    match = match_on(ledger.state_for(usage, view), request)
    if not isinstance(match, Match):
        return None
    return decide(
        view,
        request,
        match,
        node=node,
        usage=usage,
        compared=None,
        shared=ledger.shared_gpu(usage, view, match),
    )


def bound(view: PodView, decision: Decision) -> PodView:
    """Return the pod after its Binding."""
    annotations = {**view.annotations, **decision.annotations}
    return replace(view, node=decision.claim.node, annotations=annotations, started=True)


def shuffled(chance: Random, names: list[str]) -> list[str]:
    """Return the names in random order."""
    return chance.sample(names, len(names))
