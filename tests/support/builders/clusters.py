"""Random clusters as lists of objects: what an API server with gputopo may hold."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from gputopo.api.annotations import GpusAnnotation
from gputopo.api.names import GPUS_ANNOTATION
from gputopo.topology.model import GpuUuid, NodeTopology
from gputopo_cluster.claims import CLAIMS_LEASE, Claim, format_claims
from support.builders.objects import Document, at_version, container_states, pod, topology_object
from support.builders.topologies import DOUBLE, SINGLE, node

CLUSTER_SHAPES = (
    {"indices": (0, 1, 2, 3), "links": {(0, 1): DOUBLE, (2, 3): SINGLE}},
    {"indices": (0, 1, 2, 5), "links": {(0, 5): DOUBLE}},
    {"indices": (0, 1), "links": {}},
)
SEEN_VERSION = 50
"""Version up to which the agents have seen changes of pods, if they report one."""


@dataclass(frozen=True)
class Lists:
    """The objects of a cluster by kind."""

    topologies: list[Document]
    pods: list[Document]
    leases: list[Document]


def shape(number: int, name: str) -> NodeTopology:
    """Return one of a few topologies, with the UUIDs of this node."""
    of = CLUSTER_SHAPES[number % len(CLUSTER_SHAPES)]
    return node(*of["indices"], links=of["links"], name=name)  # type: ignore[arg-type]


def annotated(uid: str, name: str, uuids: list[GpuUuid]) -> dict[str, str]:
    """Return the annotation of a pod that has these GPUs."""
    gpus = GpusAnnotation(uid=uid, node=name, generation=1, containers={"main": uuids})
    return {GPUS_ANNOTATION: gpus.dump()}


def random_lists(chance: Random, nodes: int = 4) -> Lists:
    """Return nodes with live, ended, unmanaged and unparsable pods, claims and waiting pods."""
    machines = {f"n{it}": shape(chance.randrange(3), f"n{it}") for it in range(nodes)}
    found = Lists([], [], [])
    for name, topology in machines.items():
        used = _put_pods(chance, found, name, topology)
        found.topologies.append(_topology(chance, name, topology, used))
    found.pods.extend(pod(f"waiting-{it}", 1 + it) for it in range(2))
    claims = [
        Claim(uid, "default", uid.removeprefix("uid-"), "7", name, (chance.choice(gpus).uuid,))
        for uid in ("uid-waiting-0", "uid-n0-0", "uid-unknown")
        for name, gpus in [(name, machines[name].gpus) for name in machines]
        if chance.random() < 0.2
    ]
    metadata = {"name": CLAIMS_LEASE, "annotations": format_claims(claims)}
    found.leases.append({"metadata": {**metadata, "namespace": "gputopo-system"}})
    return found


def _put_pods(chance: Random, found: Lists, name: str, topology: NodeTopology) -> Mapping[int, str]:
    """Add pods of the node; return the UID of the pod that the agent reports for each GPU."""
    used: dict[int, str] = {}
    free = list(topology.gpus)
    chance.shuffle(free)
    for number in range(chance.randrange(4)):
        size = min(len(free), chance.choice([1, 1, 2]))
        gpus, free = free[:size], free[size:]
        if not gpus:
            break
        uid = f"uid-{name}-{number}"
        kind = chance.choice(["managed", "managed", "unmanaged", "invalid"])
        annotations = annotated(uid, name, [gpu.uuid for gpu in gpus])
        if kind != "managed":
            annotations = {GPUS_ANNOTATION: "{"} if kind == "invalid" else {}
        if chance.random() < 0.7:
            used |= {gpu.index: uid for gpu in gpus}
        phase = chance.choice(["Running", "Running", "Pending", "Succeeded", "Failed"])
        document = pod(f"{name}-{number}", size, node=name, phase=phase, annotations=annotations)
        document["status"] |= chance.choice(
            [{}, {"containerStatuses": container_states("terminated")}, {"reason": "Evicted"}]
        )
        found.pods.append(at_version(document, chance.choice([10, SEEN_VERSION, 90])))
    if free and chance.random() < 0.2:
        used[free[0].index] = f"uid-{name}-deleted"
    return used


def _topology(
    chance: Random, name: str, topology: NodeTopology, used: Mapping[int, str]
) -> Document:
    if chance.random() < 0.1:
        document = topology_object(name, topology)
        return {**document, "spec": {**document["spec"], "links": []}}
    return topology_object(
        name,
        topology,
        unhealthy=[gpu.index for gpu in topology.gpus if chance.random() < 0.1],
        used_by=used,
        not_ready="Stopped" if chance.random() < 0.1 else None,
        deleted=[index for index, uid in used.items() if uid.endswith("deleted")],
        pods_version=chance.choice([None, SEEN_VERSION, SEEN_VERSION]),
    )
