"""A node with sized pods as objects of the fake API server; with its kubelet and scheduler."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from gputopo.api.names import (
    API_VERSION,
    PROFILE_ANNOTATION,
    RESOURCE,
    RESOURCES_ANNOTATION,
    RESOURCES_MODE_ANNOTATION,
    TUNED_LABEL,
)
from gputopo.api.tuning import TunedRecord
from gputopo_kube.podmodel import valid_parts
from gputopo_kube.podrequests import counted_requests
from support.api.faults import CLOSED, Fault
from support.api.server import ApiServer
from support.builders.objects import pod
from support.profiling.pods import sample

Document = dict[str, Any]

NODE = "n1"
GIB = 2**30
LINEAR: Mapping[int, int] = {cpus: 10 * cpus for cpus in (1, 2, 4, 8)}
"""Steps per second by CPUs of a workload that needs CPUs: each CPU gives 10 more."""
FLAT: Mapping[int, int] = {1: 100, 2: 101, 4: 101, 8: 101}
"""A workload that one CPU is enough for."""
INSUFFICIENT = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate"


def sized_container(
    cpu: str = "1", memory: str = "4Gi", gpus: int = 1, limit: str = "", **more: Any
) -> Document:
    """Return a container with GPUs; its CPU limit is its request unless given."""
    requests = {"cpu": cpu, "memory": memory, RESOURCE: str(gpus)}
    resources = {"requests": requests, "limits": {**requests, "cpu": limit or cpu}}
    return {"name": "main", "image": "train", "resources": resources, **more}


def sized_pod(
    name: str,
    *,
    mode: str = "Auto",
    profile: str = "",
    node: str | None = NODE,
    container: Document | None = None,
    **annotations: Any,
) -> Document:
    """Return a running pod that gputopo sizes; annotations are named without ``gputopo.io/``."""
    phase = "Running" if node else "Pending"
    document = pod(name, node=node, phase=phase, containers=[container or sized_container()])
    document["metadata"]["labels"] = {TUNED_LABEL: "true"}
    written = {f"gputopo.io/{key.replace('_', '-')}": text for key, text in annotations.items()}
    named = {PROFILE_ANNOTATION: profile} if profile else {}
    document["metadata"]["annotations"] = {RESOURCES_MODE_ANNOTATION: mode, **named, **written}
    return document


def profile_object(name: str, curve: Mapping[int, int], *, gpus: int = 1, **spec: Any) -> Document:
    """Return a GPUProfile with measured steps per second by CPUs."""
    points = [
        {"milliCPU": 1000 * cpus, "microStepsPerSecond": 1_000_000 * rate, "ciPermille": 10}
        for cpus, rate in curve.items()
    ]
    facts = {"gpuModel": "Tesla V100", "cpus": [{"gpus": gpus, "points": points}]}
    metadata = {"name": name, "namespace": "default"}
    kind = {"apiVersion": API_VERSION, "kind": "GPUProfile", "metadata": metadata}
    # The operator computes the facts from the samples again.
    taken = [
        sample(1000 * cpus, rate, at=600 * number, gpus=gpus).to_json()
        for number, (cpus, rate) in enumerate(curve.items())
    ]
    return {**kind, "spec": spec, "status": {"facts": facts, "samples": taken}}


class SizedCluster:
    """One node with 4 GPUs.

    Attributes:
        now: time of the operator.
        is_broken: whether ``break_next`` was called.
        resizes: pod and new CPU limit of each resize that the API server has accepted.
    """

    def __init__(self, api: ApiServer, cpu: int = 8, memory_gib: int = 64) -> None:
        self.api = api
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.is_broken = False
        api.create("nodes", node_object(cpu=cpu, memory_gib=memory_gib))
        api.create("gpuprofiles", profile_object("linear", LINEAR))
        api.create("gpuprofiles", profile_object("flat", FLAT))

    def add(self, name: str, **fields: Any) -> str:
        """Create a running pod; return its UID."""
        created = self.api.create("pods", sized_pod(name, **fields))
        assert created is not None
        self.run_kubelet()
        return str(created["metadata"]["uid"])

    def add_unbound(self, name: str, **fields: Any) -> None:
        """Create a sized pod for which gputopo's scheduler has found no node."""
        document = sized_pod(name, node=None, **fields)
        document["status"]["conditions"] = [unschedulable()]
        self.api.create("pods", document)

    def break_next(self) -> None:
        """Carry out the next write, but close its connection without a response."""
        self.is_broken = True
        self.api.faults = [Fault("PATCH|POST", "", CLOSED, carried_out="yes")]

    def annotate(self, name: str, **annotations: str) -> None:
        """Set annotations of a pod, named without ``gputopo.io/``."""
        written = {f"gputopo.io/{key}": text for key, text in annotations.items()}
        self.api.change("pods", name, lambda it: it["metadata"]["annotations"].update(written))

    def set_cpu(self, name: str, cpu: str) -> None:
        """Resize a pod as another client does."""

        def resize(document: Document) -> None:
            for amounts in _main(document)["resources"].values():
                amounts["cpu"] = cpu

        self.api.change("pods", name, resize)
        self.run_kubelet()

    def add_waiting(self, name: str, cpu: str, **fields: Any) -> None:
        """Create a pod for which the default scheduler has found no node."""
        container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
        document = pod(name, containers=[container])
        document["spec"]["schedulerName"] = "default-scheduler"
        document["spec"] |= fields
        document["status"]["conditions"] = [unschedulable()]
        self.api.create("pods", document)

    @property
    def cpus(self) -> dict[str, int]:
        """CPU limit of each sized pod in its spec, in thousandths."""
        return {
            each["metadata"]["name"]: counted_milli_cpu(each)
            for each in self.api.all("pods")
            if TUNED_LABEL in (each["metadata"].get("labels") or {})
        }

    @property
    def resizes(self) -> list[tuple[str, str]]:
        """Pod and CPU limit of each resize, in order."""
        return [
            (write.path.split("/")[-2], _main(write.body)["resources"]["limits"]["cpu"])
            for write in self.api.writes
            if write.path.endswith("/resize")
        ]

    def record(self, name: str) -> TunedRecord | None:
        """Return the operator's annotation of a pod."""
        text = self.api.pod(name)["metadata"]["annotations"].get(RESOURCES_ANNOTATION)
        return None if text is None else TunedRecord.model_validate_json(text)

    def events(self, name: str) -> list[tuple[str, str]]:
        """Return reason and note of the events of a pod."""
        found = [each for each in self.api.all("events") if each["regarding"]["name"] == name]
        return [(each["reason"], each["note"]) for each in found]

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def run_kubelet(self) -> None:
        """Carry out all resizes that fit, cuts first; report the others as deferred."""
        pods = [it for it in self.api.all("pods") if it["spec"].get("nodeName") == NODE]
        for document in sorted(pods, key=_rise):
            name = document["metadata"]["name"]
            used = sum(_allocated(it) for it in self.api.all("pods") if _is_other(it, name))
            wanted = counted_milli_cpu(document)
            fits = used + wanted <= self._allocatable() or _rise(document) <= 0
            self.api.change("pods", name, partial(_apply, fits=fits))

    def run_scheduler(self) -> None:
        """Bind the pending pods that fit, counting the larger of spec and allocated amounts."""
        for document in self.api.all("pods"):
            bound = [it for it in self.api.all("pods") if it["spec"].get("nodeName") == NODE]
            used = sum(counted_requests(valid_parts(it))["cpu"] for it in bound)
            wanted = counted_requests(valid_parts(document))["cpu"]
            if not document["spec"].get("nodeName") and used + wanted <= self._allocatable():
                self.api.change("pods", document["metadata"]["name"], _bind)
        self.run_kubelet()

    def total(self) -> int:
        """Return what kube-scheduler counts for all pods of the node, in thousandths of a CPU."""
        bound = [it for it in self.api.all("pods") if it["spec"].get("nodeName") == NODE]
        return sum(counted_requests(valid_parts(it))["cpu"] for it in bound)

    def change(self, name: str, **parts: Document) -> None:
        """Merge fields into metadata, spec or status of a pod."""

        def merge(document: Document) -> None:
            for part, fields in parts.items():
                document[part] |= fields

        self.api.change("pods", name, merge)

    def _allocatable(self) -> int:
        found = self.api.get("nodes", NODE, "")
        assert found is not None
        return int(found["status"]["allocatable"]["cpu"]) * 1000


def node_object(cpu: int = 8, memory_gib: int = 64, gpus: int = 4) -> Document:
    """Return a Node."""
    allocatable = {
        "cpu": str(cpu),
        "memory": f"{memory_gib}Gi",
        "pods": "110",
        RESOURCE: str(gpus),
    }
    metadata = {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}}
    return {"metadata": metadata, "spec": {}, "status": {"allocatable": allocatable}}


def unschedulable(message: str = INSUFFICIENT) -> Document:
    """Return kube-scheduler's condition for a pod that fits on no node."""
    kind = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {**kind, "message": message}


def counted_milli_cpu(document: Document) -> int:
    """Return the CPU request in the spec of a pod, in thousandths."""
    bare = {**document, "status": {}}
    return counted_requests(valid_parts(bare))["cpu"]


def _main(document: Document) -> Document:
    found: Document = document["spec"]["containers"][0]
    return found


def _is_other(document: Document, name: str) -> bool:
    return bool(document["spec"].get("nodeName") == NODE and document["metadata"]["name"] != name)


def _allocated(document: Document) -> int:
    statuses = document["status"].get("containerStatuses") or ()
    if not statuses:
        return counted_milli_cpu(document)
    status = {"status": {}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    status["spec"]["containers"][0]["resources"] = statuses[0]["resources"]
    return counted_milli_cpu({**document, **status})


def _rise(document: Document) -> int:
    return counted_milli_cpu(document) - _allocated(document)


def _apply(document: Document, *, fits: bool) -> None:
    status = document["status"]
    status["conditions"] = []
    if not fits:
        status["conditions"] = [
            {"type": "PodResizePending", "status": "True", "reason": "Deferred", "message": "full"}
        ]
        return
    resources = _main(document).get("resources") or {}
    requests = dict(resources.get("requests") or {})
    applied = {"requests": requests, "limits": dict(resources.get("limits") or {})}
    status["phase"] = "Running"
    status["containerStatuses"] = [
        {"name": "main", "resources": applied, "allocatedResources": requests}
    ]


def _bind(document: Document) -> None:
    document["spec"]["nodeName"] = NODE
    document["status"]["conditions"] = []
