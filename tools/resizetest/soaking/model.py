"""What the soak has created, and what it sees of each pod. Pure.

All CPUs are thousandths of a CPU. Memory is in bytes.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from gputopo.api.names import JOB_LABEL, RESOURCE, RESOURCES_ANNOTATION
from gputopo.api.quantity import parse_bytes
from resizetest import amounts
from soaktest.client import Object

_ENDED = frozenset({"Succeeded", "Failed"})


class Finding(NamedTuple):
    """An error of the product: its kind, and the text."""

    kind: str
    text: str


class Size(NamedTuple):
    """Request and limit of CPUs, and of memory, of one container; 0 if it has none."""

    request: int
    limit: int
    memory: int = 0
    memory_limit: int = 0


@dataclass(frozen=True, slots=True)
class Expected:
    """One job or pod that the soak has created.

    Attributes:
        name: of the GPUJob, or of the pod.
        mode: ``Auto``, ``Proportional`` or ``Fixed``; ``Fixed`` for pods without GPUs, too.
        created: amounts in its manifest, which are its floor.
        most: upper bound that its user has set; None without a bound.
        enough: CPUs with which it reaches its full speed, by its facts. Below, its speed is in
            proportion to its CPUs. None without facts.
        learns: whether it reports steps, so that the facts, and with them ``enough``, may change.
        is_job: whether it is a GPUJob.
    """

    name: str
    mode: str
    gpus: int
    created: Size
    most: int | None = None
    enough: int | None = None
    learns: bool = False
    is_job: bool = False

    @property
    def is_tuned(self) -> bool:
        """Whether gputopo may resize it."""
        return self.mode != "Fixed"

    @property
    def floor(self) -> int:
        """The least CPUs that its container may have."""
        return self.created.request


@dataclass(frozen=True, slots=True)
class PodSize:
    """One pod of the API server.

    Attributes:
        owner: name of its GPUJob; of the pod itself if it has none.
        qos: QoS class in its status; empty before kubelet has written it.
        restarts: of all its containers.
        gpus: of its first container.
        requests: of all its containers, in the spec.
        allocated: of all its containers, as kubelet has allocated them.
        size: of its first container, in the spec.
        applied: CPU limit that is in effect, of all its containers; None if not reported.
        record: annotation ``gputopo.io/resources``, empty if there is none.
        why: reason and message of its end.
    """

    uid: str
    namespace: str
    name: str
    owner: str
    node: str
    phase: str
    deleting: bool
    qos: str
    restarts: int
    gpus: int
    requests: int
    allocated: int
    size: Size
    applied: int | None
    record: Mapping[str, Any]
    why: str = ""

    @property
    def live(self) -> bool:
        """Whether it may have running containers."""
        return self.phase not in _ENDED

    @property
    def counted(self) -> int:
        """The CPUs that kube-scheduler counts for the pod."""
        return max(self.requests, self.allocated)


def pod_size(pod: Object) -> PodSize:
    """Parse a pod."""
    metadata, spec, status = pod["metadata"], pod["spec"], pod.get("status", {})
    found, first = amounts.read({**pod, "status": status}), spec["containers"][0]
    return PodSize(
        uid=metadata["uid"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        owner=metadata.get("labels", {}).get(JOB_LABEL, metadata["name"]),
        node=spec.get("nodeName", ""),
        phase=status.get("phase", ""),
        deleting="deletionTimestamp" in metadata,
        qos=status.get("qosClass", ""),
        restarts=found.restarts,
        gpus=int(first.get("resources", {}).get("limits", {}).get(RESOURCE, 0)),
        requests=found.requests.milli_cpu,
        allocated=found.allocated.milli_cpu,
        size=_size(first.get("resources", {})),
        applied=found.limits.milli_cpu or None,
        record=json.loads(metadata.get("annotations", {}).get(RESOURCES_ANNOTATION, "{}")),
        why=" ".join(filter(None, (status.get("reason"), status.get("message")))),
    )


def _size(resources: Mapping[str, Any]) -> Size:
    requests, limits = (resources.get(kind, {}) for kind in ("requests", "limits"))
    return Size(
        amounts.milli_cpu(requests.get("cpu", "0")),
        amounts.milli_cpu(limits.get("cpu", "0")),
        parse_bytes(requests.get("memory", "0"), "requests.memory"),
        parse_bytes(limits.get("memory", "0"), "limits.memory"),
    )
