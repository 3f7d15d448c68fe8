"""GPUJobs with their Jobs and pods, for tests of the operator."""

from collections.abc import Mapping, Sequence
from typing import Any

from gputopo.api.annotations import GpusAnnotation, PlacementAnnotation
from gputopo.api.names import (
    API_VERSION,
    GPUS_ANNOTATION,
    JOB_LABEL,
    PLACEMENT_ANNOTATION,
    RESOURCE,
)
from gputopo.api.topology import to_spec
from gputopo.patterns.model import PatternKind
from gputopo.placement.model import PolicyName
from support.builders.objects import pod
from support.builders.topologies import with_uuids

Document = dict[str, Any]

GPUS = ("GPU-4", "GPU-5", "GPU-7")


def gpu_job(
    name: str = "train", *, labels: Mapping[str, str] | None = None, **spec: Any
) -> Document:
    """Return a GPUJob for three GPUs; ``spec`` adds or replaces fields."""
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUJob",
        "metadata": {"name": name, "namespace": "default", "labels": dict(labels or {})},
        "spec": {"gpusPerReplica": 3, "template": template(), **spec},
    }


def template(*containers: Document, **pod: Any) -> Document:
    """Return a pod template with these containers, or with one that is called main."""
    return {"spec": {"containers": list(containers) or [container("main")], **pod}}


def container(name: str, **fields: Any) -> Document:
    """Return a container."""
    return {"name": name, "image": "trainer:1", **fields}


def job_pod(
    job: Document,
    name: str = "train-1",
    *,
    node: str | None = None,
    phase: str = "Pending",
    created: str = "2026-01-01T01:00:00Z",
    gpus: Sequence[str] = (),
    **status: Any,
) -> Document:
    """Return a pod of the Job controller; with ``node`` it is bound and has ``gpus``."""
    document = pod(name, phase=phase, containers=[container("main")])
    document["metadata"] |= {
        "creationTimestamp": created,
        "labels": {JOB_LABEL: job["metadata"]["name"]},
        "ownerReferences": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": job["metadata"]["name"],
                "uid": job["metadata"]["uid"],
                "controller": True,
            }
        ],
    }
    document["status"] |= status
    if node is not None:
        bind(document, node, gpus)
    return document


def bind(pod: Document, node: str, gpus: Sequence[str]) -> None:
    """Change a pod as the extender's Binding does."""
    pod["spec"]["nodeName"] = node
    if not gpus:
        return
    uid = pod["metadata"]["uid"]
    chosen = GpusAnnotation(uid=uid, node=node, generation=7, containers={"main": list(gpus)})
    figures = PlacementAnnotation(
        policy=PolicyName.PRESERVE,
        pattern=PatternKind.RING,
        sensitive=True,
        reason="Declared",
        model="eq2",
        effective_mb_per_s=44100,
        aggregate_mb_per_s=100000,
        preserved_mb_per_s=12000,
    )
    pod["metadata"]["annotations"] = {
        GPUS_ANNOTATION: chosen.dump(),
        PLACEMENT_ANNOTATION: figures.dump(),
    }


def exited(code: int) -> Document:
    """Return the status of a pod whose container ended with this code."""
    state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}
    statuses = [{"name": "main", "state": state}]
    return {"phase": "Failed" if code else "Succeeded", "containerStatuses": statuses}


def rejected_by_kubelet(message: str = "Allocate failed") -> Document:
    """Return the status of a pod that kubelet did not admit."""
    return {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": message}


def observed_topology(node: str, held: Mapping[str, str]) -> Document:
    """Return a GPUTopology whose status has the pod UID that uses each GPU."""
    gpus = [{"uuid": uuid, "healthy": True, "podUID": uid} for uuid, uid in held.items()]
    spec = to_spec(with_uuids(*held)).to_json()
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUTopology",
        "metadata": {"name": node},
        "spec": spec,
        "status": {"observedGeneration": 7, "gpus": gpus},
    }


def requested_gpus(job: Document) -> dict[str, str | None]:
    """Return the GPUs that each container of a Job requests."""
    containers = job["spec"]["template"]["spec"]["containers"]
    return {
        entry["name"]: entry.get("resources", {}).get("limits", {}).get(RESOURCE)
        for entry in containers
    }
