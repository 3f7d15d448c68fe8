"""Clusters whose pods share GPUs, as objects of the API server."""

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

from gputopo.api.names import PROFILE_ANNOTATION, RESOURCE
from gputopo.api.shares import gpu_of, share_id, share_resource
from gputopo.topology.model import GpuUuid, NodeTopology
from gputopo_cluster.claims import CLAIMS_LEASE, Claim, format_claims
from gputopo_cluster.usage import NodeUsage
from gputopo_explain.objects import ClusterObjects
from gputopo_extender.fencing.decide import decide
from gputopo_extender.state.decision import Decision
from gputopo_scheduling.evaluation import Misfit
from gputopo_scheduling.node_fits import match_on
from gputopo_scheduling.share_options import shared_gpu
from gputopo_scheduling.sharing_state import sharing_state
from gputopo_scheduling.surroundings import NOTHING_RUNS
from support.builders.clusters import Lists, annotated, shape
from support.builders.live import cluster, dgx, kube_node
from support.builders.objects import Document, at_version, pod, topology_object
from support.builders.requests import pod_view, request_in
from support.explain.placed import NODES

SHARES = share_resource(RESOURCE)
NONE: Mapping[str, str] = {}


def share(number: int, gpu: int = 0, node: str = "n1") -> str:
    """Return the ID of a share of a GPU of a node with 8 GPUs."""
    return share_id(dgx(node).gpus[gpu].uuid, number)


def sharing_pod(
    name: str,
    device: str | None = None,
    *,
    node: str = "n1",
    profile: str = "small",
    annotations: Mapping[str, str] = NONE,
    phase: str = "Running",
) -> Document:
    """Return a pod that requests a share; ``device`` is the share that it has, if it is bound."""
    amounts = {SHARES: "1"}
    container = {
        "name": "main",
        "image": "train",
        "resources": {"limits": amounts, "requests": amounts},
    }
    written = {PROFILE_ANNOTATION: profile} if profile else {}
    written |= annotated(f"uid-{name}", node, [GpuUuid(device)]) if device else {}
    return pod(
        name,
        node=node if device else None,
        phase=phase if device else "Pending",
        annotations={**written, **annotations},
        containers=[container],
    )


def sharing_topology(
    users: Mapping[str, str] = NONE,
    *,
    node: str = "n1",
    most: int | None = 3,
    faults: Mapping[int, str] | None = None,
    of: NodeTopology | None = None,
    **fields: Any,
) -> Document:
    """Return a GPUTopology; ``users`` has the name of the pod that has each share.

    ``faults`` are the sharing faults by index of the GPU.
    """
    document = topology_object(node, of or dgx(node), **fields)
    for index, gpu in enumerate(document["status"]["gpus"]):
        found = [
            {
                "id": device,
                "podUID": f"uid-{name}",
                "namespace": "default",
                "pod": name,
                "container": "main",
            }
            for device, name in sorted(users.items())
            if gpu_of(device) == gpu["uuid"]
        ]
        if found:
            gpu |= {name: it for name, it in found[0].items() if name != "id"}
            gpu["shares"] = found
        if index in (faults or {}):
            gpu["sharingFault"] = (faults or {})[index]
    if most is not None:
        document["status"]["sharing"] = {"maxPodsPerGPU": most}
    return document


def sharing_profile(
    name: str = "small", speeds: Mapping[tuple[str, ...], int] | None = None
) -> Document:
    """Return a GPUProfile; ``speeds`` are in thousandths beside profiles of the same namespace."""
    facts = {
        "gpuModel": dgx("n1").gpus[0].model,
        "scaling": [
            {"gpus": 1, "microStepsPerSecond": 10**7, "ciPermille": 10, "extrapolated": False}
        ],
        "sharing": [
            {
                "beside": sorted(f"default/{each}" for each in beside),
                "speedPermille": speed,
                "ciPermille": 20,
                "samples": 5,
            }
            for beside, speed in (speeds or {}).items()
        ],
    }
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"profile-{name}"},
        "spec": {},
        "status": {"facts": facts},
    }


SMALL = sharing_profile("small", {("small",): 800, ("large",): 700, ("small", "small"): 500})
"""Two small workloads have together 1.6 times the speed of one; three have 1.5 times."""

LARGE = sharing_profile("large", {("small",): 300, ("large",): 400})
"""A small and a large workload have together the speed of one."""


def sharing_node(name: str) -> Document:
    """Return a Node with 8 GPUs and 24 shares."""
    document = kube_node(name)
    document["status"]["allocatable"][SHARES] = "24"
    return document


def sharing_cluster(
    pods: Iterable[Document] = (),
    topologies: Iterable[Document] | None = None,
    profiles: Iterable[Document] = (SMALL, LARGE),
    **others: Any,
) -> ClusterObjects:
    """Return the objects of a cluster with shares; by default, one node whose GPUs are idle."""
    found = [sharing_topology()] if topologies is None else [*topologies]
    nodes = [sharing_node(each["metadata"]["name"]) for each in found]
    return cluster(pods, topologies=found, kube_nodes=nodes, profiles=profiles, nodes=(), **others)


def decision_of(document: Document, objects: ClusterObjects, node: str = "n1") -> Decision:
    """Return the extender's own decision about a sharing pod on a node."""
    view = pod_view(at_version(document, 7))
    usage, knowledge = objects.snapshot.usages[node], objects.sharing
    assert isinstance(usage, NodeUsage)
    request = request_in(view)
    match = match_on(sharing_state(usage, view, knowledge), request, NOTHING_RUNS)
    assert not isinstance(match, Misfit), match
    shared = shared_gpu(usage, view, match.gpus[0], knowledge)
    return decide(view, request, match, node=node, usage=usage, compared=NODES, shared=shared)


def placed(document: Document, objects: ClusterObjects, node: str = "n1") -> Document:
    """Return the pod with the share that the extender's own code chooses on a node."""
    decision = decision_of(document, objects, node)
    metadata = document["metadata"]
    annotations = {**metadata["annotations"], **decision.annotations}
    return {
        **document,
        "metadata": {**metadata, "annotations": annotations},
        "spec": {**document["spec"], "nodeName": node},
        "status": {"phase": "Running"},
    }


def two_on_one_gpu(**annotations: str) -> tuple[Document, Document, Document]:
    """Return two pods of which the second shares the GPU of the first, and their GPUTopology."""
    written = {f"gputopo.io/{name.replace('_', '-')}": it for name, it in annotations.items()}
    first = placed(sharing_pod("first"), sharing_cluster())
    device = first["metadata"]["annotations"]["gputopo.io/gpus"].split('"')
    one = next(each for each in device if "::" in each)
    second = placed(sharing_pod("second", annotations=written), sharing_cluster([first]))
    users = {one: "first", one.replace("::0", "::1"): "second"}
    return first, second, sharing_topology(users)


def random_sharing_lists(chance: Random, nodes: int = 3) -> Lists:
    """Return nodes with sharing pods, pods with whole GPUs, and claims of shares."""
    found = Lists([], [], [])
    claims: list[Claim] = []
    for node in (f"n{it}" for it in range(nodes)):
        topology, users = shape(chance.randrange(3), node), dict[str, str]()
        for gpu in topology.gpus:
            if chance.random() < 0.3:
                whole = pod(f"{node}-{gpu.index}", node=node, phase="Running")
                whole["metadata"]["annotations"] = annotated(
                    whole["metadata"]["uid"], node, [gpu.uuid]
                )
                found.pods.append(whole)
                continue
            for number in range(chance.choice([0, 0, 1, 2, 3])):
                device = share_id(gpu.uuid, number)
                name = f"{node}-{gpu.index}-{number}"
                if chance.random() < 0.2:
                    claims.append(Claim(f"uid-{name}", "default", name, "7", node, (device,)))
                    continue
                found.pods.append(_random_sharing_pod(chance, name, node, device))
                if chance.random() < 0.8:
                    users[device] = name
        faults = {it: "MPS is in state Fault" for it in range(4) if chance.random() < 0.1}
        most = chance.choice([None, 2, 3, 3])
        found.topologies.append(
            sharing_topology(users, node=node, most=most, faults=faults, of=topology)
        )
    metadata = {"name": CLAIMS_LEASE, "annotations": format_claims(claims)}
    found.leases.append({"metadata": {**metadata, "namespace": "gputopo-system"}})
    return found


def _random_sharing_pod(chance: Random, name: str, node: str, device: str) -> Document:
    annotations = {"gputopo.io/sharing-memory": "8Gi"} if chance.random() < 0.2 else {}
    return sharing_pod(
        name,
        device,
        node=node,
        profile=chance.choice(["small", "small", "large", ""]),
        annotations=annotations,
        phase=chance.choice(["Running", "Running", "Pending", "Succeeded"]),
    )
