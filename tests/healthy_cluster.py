"""A cluster of two nodes on which all is well, as an API server would show it.

Trimmed to what is read. That the real objects look like this is for the tests on a real API server
to say.
"""

import json
from collections.abc import Sequence
from typing import Any

from canned_api import CannedApi
from gputopo.api.annotations import GpusAnnotation
from gputopo.api.names import GPUS_ANNOTATION, RESOURCE
from gputopo.topology import catalogue
from gputopo.topology.published import to_spec

Document = dict[str, Any]

PODS = "/api/v1/pods"
TOPOLOGIES = "/apis/gputopo.io/v1alpha1/gputopologies"

TOPOLOGY_OF = {
    "n1": catalogue.named("dgx1-v100", node="n1"),
    "n2": catalogue.named("pcie-8gpu", node="n2"),
}


def uuids(node: str, *indices: int) -> list[str]:
    """Return the UUIDs of some GPUs."""
    return [gpu.uuid for index in indices for gpu in TOPOLOGY_OF[node].gpus if gpu.index == index]


def books() -> CannedApi:
    """Return both books: two pods have four of the sixteen GPUs."""
    train = pod("train", "n1", uuids("n1", 0, 3, 2))
    serve = pod("serve", "n2", uuids("n2", 5), namespace="ml")
    return CannedApi(
        lists={
            PODS: [train, serve, pod("web", "n1", [])],
            TOPOLOGIES: [topology("n1", train), topology("n2", serve)],
        }
    )


def pod(name: str, node: str, gpus: Sequence[str], *, namespace: str = "default") -> Document:
    """Return a running pod of one container that was given these GPUs."""
    uid = f"uid-{name}"
    containers = {"main": list(gpus)} if gpus else {}
    given = GpusAnnotation(uid=uid, node=node, generation=1, containers=containers)
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "annotations": {GPUS_ANNOTATION: given.dump()} if gpus else {},
        },
        "spec": {
            "nodeName": node,
            "containers": [
                {"name": "main", "resources": {"limits": {RESOURCE: str(len(gpus))}}},
            ],
        },
        "status": {
            "phase": "Running",
            "startTime": "2026-01-02T03:04:05Z",
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "True",
                    "lastTransitionTime": "2026-01-02T03:04:04Z",
                },
            ],
        },
    }


def topology(name: str, *holders: Document) -> Document:
    """Return a GPUTopology on which kubelet gave these pods what they were to get."""
    known = TOPOLOGY_OF[name]
    held: dict[str, Document] = {
        uuid: {
            "podUID": holder["metadata"]["uid"],
            "namespace": holder["metadata"]["namespace"],
            "pod": holder["metadata"]["name"],
            "container": container,
        }
        for holder in holders
        for container, given in json.loads(holder["metadata"]["annotations"][GPUS_ANNOTATION])[
            "containers"
        ].items()
        for uuid in given
    }
    conditions = {
        "Ready": "Serving",
        "GPUsHealthy": "AllHealthy",
        "AllocationsAsPlaced": "AllAsPlaced",
    }
    return {
        "metadata": {"name": name, "generation": 3},
        "spec": to_spec(known).to_json(),
        "status": {
            "observedGeneration": 3,
            "conditions": [
                {
                    "type": kind,
                    "status": "True",
                    "reason": reason,
                    "message": "as it should be",
                    "lastTransitionTime": "2026-01-02T03:00:00Z",
                }
                for kind, reason in conditions.items()
            ],
            "gpus": [
                {"uuid": gpu.uuid, "healthy": True, **held.get(gpu.uuid, {})} for gpu in known.gpus
            ],
        },
    }
