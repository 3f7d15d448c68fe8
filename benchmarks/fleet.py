"""A ledger with nodes in mixed states, filled like from lists of the API server."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Final

from gputopo.api.annotations import GpusAnnotation
from gputopo.api.names import (
    EDGES_ANNOTATION,
    GPUS_ANNOTATION,
    PATTERN_ANNOTATION,
    POLICY_ANNOTATION,
    PROFILE_ANNOTATION,
    RESOURCE,
    RESOURCES_MODE_ANNOTATION,
    SENSITIVITY_ANNOTATION,
)
from gputopo.api.topology import to_spec
from gputopo.catalogue import named
from gputopo.topology.model import GpuMask, NodeTopology, indices_of
from gputopo.utility.interference import WorkloadKind
from gputopo_cluster.topologies import parse_gpu_node
from gputopo_extender.state.ledger import Ledger
from gputopo_kube.pods import PodView, parse_gpu_pod
from gputopo_scheduling.surroundings import BesideSlowdown, KnownWorkload

TOPOLOGIES: Final = ("dgx1-v100", "dgx1-p100", "dgx-a100", "dgx-h100", "pcie-8gpu")
"""Nodes of 8 GPUs; node i has the i-th topology, in turn."""

WORKLOADS: Final = tuple(f"w{number}" for number in range(8))
"""GPUProfiles of the running pods, in turn. Each pair has a known slowdown."""

_FILLER: Final = {f"VARIABLE_{number}": "x" * 60 for number in range(40)}
"""Environment that makes a pod as long as real pods: about 4 kB."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The request of a pod."""

    name: str
    gpus: int
    annotations: Mapping[str, str]


def _shape(name: str, gpus: int, pattern: str = "Ring", **more: str) -> Shape:
    return Shape(name, gpus, {PATTERN_ANNOTATION: pattern, **more})


_INSENSITIVE: Final = {SENSITIVITY_ANNOTATION: "Insensitive"}
_EDGES: Final = {
    EDGES_ANNOTATION: '[{"from":0,"to":1,"weight":3},{"from":1,"to":2},{"from":2,"to":3}]'
}

_BY_UTILITY: Final = {POLICY_ANNOTATION: "Utility", PROFILE_ANNOTATION: "w1"}

SHAPES: Final = (
    *(_shape(f"ring of {gpus}", gpus) for gpus in range(1, 9)),
    _shape("ring of 3, insensitive", 3, **_INSENSITIVE),
    _shape("ring of 4, greedy", 4, **{POLICY_ANNOTATION: "Greedy"}),
    _shape("all-to-all of 4", 4, "AllToAll"),
    _shape("custom of 4", 4, "Custom", **_EDGES),
    _shape("ring of 4, utility", 4, **_BY_UTILITY),
    _shape("ring of 4, sized", 4, **{RESOURCES_MODE_ANNOTATION: "Auto"}),
)


def filled_ledger(nodes: int) -> Ledger:
    """Return the ledger of this many nodes; each topology has every set of free GPUs in turn."""
    ledger = Ledger()
    ledger.replace_topologies(parse_gpu_node(_topology(node)) for node in range(nodes))
    ledger.replace_pods(_running_pods(nodes), epoch=ledger.begin_pod_list())
    ledger.interference.replace(_known_workloads())
    return ledger


def _known_workloads() -> Iterator[KnownWorkload]:
    names = [f"research/{name}" for name in WORKLOADS]
    for number, name in enumerate(names):
        percents = ((number * 7 + other * 11) % 31 for other in range(len(names)))
        beside = map(BesideSlowdown, names, repeat(True), percents)
        yield KnownWorkload(WorkloadKind(name), tuple(beside))


def name_of(node: int) -> str:
    """Return a name as long as those of cloud providers."""
    return f"gpu-pool-{node % 7}-node-{node:05d}.zone-a.internal"


def change(ledger: Ledger, node: int, turn: int) -> None:
    """End the pod of a node, and start one with other GPUs."""
    ledger.drop_pod(_uid(node))
    used = 1 + (node + turn * 37) % 255
    ledger.put_pod(_parse(_running_pod(node, GpuMask(used))))


def pod(shape: Shape, number: int) -> dict[str, Any]:
    """Return a pod that waits to be scheduled, as the API server returns it."""
    name = f"train-{number}"
    amounts = {"cpu": "8", "memory": "64Gi", RESOURCE: str(shape.gpus)}
    environment = [{"name": key, "value": value} for key, value in _FILLER.items()]
    return {
        "metadata": {
            "name": name,
            "namespace": "research",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "annotations": dict(shape.annotations),
        },
        "spec": {
            "schedulerName": "gputopo",
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/train:1",
                    "env": environment,
                    "resources": {"requests": amounts, "limits": amounts},
                }
            ],
        },
        "status": {"phase": "Pending"},
    }


def _machine(node: int) -> NodeTopology:
    return named(TOPOLOGIES[node % len(TOPOLOGIES)], node=name_of(node))


def _topology(node: int) -> dict[str, Any]:
    topology = _machine(node)
    # Nodes with the same GPUs have different numbers of CPUs.
    milli_cpu = (32_000, 64_000, 96_000)[node % 3]
    return {
        "metadata": {"name": name_of(node), "generation": 1},
        "spec": to_spec(topology).to_json(),
        "status": {
            "gpus": [{"uuid": gpu.uuid, "healthy": True} for gpu in topology.gpus],
            "sizedCapacity": {"milliCPU": milli_cpu, "memory": 2**38, "gpus": 8},
        },
    }


def _running_pods(nodes: int) -> Iterator[PodView]:
    for node in range(nodes):
        used = (node // len(TOPOLOGIES)) % 255
        if used:
            yield _parse(_running_pod(node, GpuMask(used)))


def _running_pod(node: int, used: GpuMask) -> dict[str, Any]:
    uuid_of = _machine(node).uuid_of
    annotation = GpusAnnotation(
        uid=_uid(node),
        node=name_of(node),
        generation=1,
        containers={"main": [uuid_of[index] for index in indices_of(used)]},
    )
    amounts = {RESOURCE: str(used.bit_count())}
    return {
        "metadata": {
            "name": f"running-{node}",
            "namespace": "research",
            "uid": _uid(node),
            "resourceVersion": "1",
            "annotations": {
                GPUS_ANNOTATION: annotation.dump(),
                PROFILE_ANNOTATION: WORKLOADS[node % len(WORKLOADS)],
            },
        },
        "spec": {
            "nodeName": name_of(node),
            "containers": [{"name": "main", "resources": {"requests": amounts, "limits": amounts}}],
        },
        "status": {"phase": "Running"},
    }


def _uid(node: int) -> str:
    return f"uid-running-{node}"


def _parse(document: Mapping[str, Any]) -> PodView:
    found = parse_gpu_pod(document, RESOURCE)
    if found is None:
        raise AssertionError("the pod requests no GPUs")
    return found
