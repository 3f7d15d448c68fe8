"""Pods that the extender's own code has placed, and altered copies of their annotations."""

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gputopo.api.names import GPUS_ANNOTATION, PLACEMENT_ANNOTATION
from gputopo.api.replay import RecordedNodes
from gputopo.catalogue import named
from gputopo.topology.model import GpuMask, NodeTopology, indices_of
from gputopo.utility.surroundings import JobSurroundings
from gputopo_cluster.topologies import GpuNode, parse_gpu_node
from gputopo_cluster.usage import NodeUsage, node_usage
from gputopo_extender.fencing.decide import decide
from gputopo_scheduling.evaluation import Misfit
from gputopo_scheduling.node_fits import match_on
from gputopo_scheduling.surroundings import NOTHING_RUNS, NodeSurroundings
from support.builders.objects import Document, at_version, pod, topology_object
from support.builders.requests import pod_view, request_in

DGX1 = named("dgx1-v100", node="n1")
NODES = RecordedNodes(compared=3, fitted=2, better=0, equal=1, score=10, misfits={"busy": 1})


def placed_pod(
    gpus: int = 2,
    *,
    name: str = "train",
    topology: NodeTopology = DGX1,
    busy: Iterable[int] = (),
    annotations: Mapping[str, str] | None = None,
    containers: Iterable[Document] = (),
    nodes: RecordedNodes | None = NODES,
    phase: str = "Running",
    surroundings: JobSurroundings | None = None,
    running: NodeSurroundings = NOTHING_RUNS,
) -> Document:
    """Return a pod on node n1 to which the extender has given GPUs that are not ``busy``.

    ``surroundings`` and ``running`` are for the policy Utility.
    """
    document = at_version(
        pod(name, gpus, annotations=annotations, containers=containers, phase=phase), 7
    )
    view = pod_view(document)
    request = replace(request_in(view), surroundings=surroundings)
    usage = usage_of(topology, busy)
    match = match_on(usage.state, request, running)
    assert not isinstance(match, Misfit)
    decision = decide(view, request, match, node="n1", usage=usage, compared=nodes, running=running)
    document["spec"]["nodeName"] = "n1"
    document["metadata"]["annotations"] |= dict(decision.annotations)
    return document


def usage_of(topology: NodeTopology, busy: Iterable[int]) -> NodeUsage:
    """Return the usage of node n1 with some GPUs in use."""
    used = {*busy}
    healthy = [index for index in indices_of(topology.mask) if index not in used]
    mask = GpuMask(sum(1 << index for index in healthy))
    return node_usage(GpuNode("n1", 1, topology, mask, ()), [], [])


def gpu_node(topology: NodeTopology = DGX1, generation: int = 1) -> GpuNode:
    """Return the published GPUs of node n1."""
    node = parse_gpu_node(topology_object("n1", topology, generation=generation))
    assert isinstance(node, GpuNode)
    return node


def figures_of(document: Document) -> dict[str, Any]:
    """Return the parsed annotation ``gputopo.io/placement``."""
    found: dict[str, Any] = json.loads(document["metadata"]["annotations"][PLACEMENT_ANNOTATION])
    return found


def altered(
    document: Document, *, replay: Mapping[str, Any] | None = None, **figures: Any
) -> Document:
    """Return a copy of the pod with other values in ``gputopo.io/placement``.

    A figure of None is removed.
    """
    found = figures_of(document) | figures
    found["replay"] |= replay or {}
    return _with_placement(document, {key: it for key, it in found.items() if it is not None})


def of_an_older_version(document: Document) -> Document:
    """Return a copy of the pod without the records that older versions do not write."""
    found = figures_of(document)
    del found["replay"]
    older = _with_placement(document, found)
    annotations = older["metadata"]["annotations"]
    gpus = json.loads(annotations[GPUS_ANNOTATION])
    del gpus["request"]
    annotations[GPUS_ANNOTATION] = json.dumps(gpus, separators=(",", ":"))
    return older


def _with_placement(document: Document, placement: Mapping[str, Any]) -> Document:
    copied = copy.deepcopy(document)
    copied["metadata"]["annotations"][PLACEMENT_ANNOTATION] = json.dumps(placement)
    return copied
