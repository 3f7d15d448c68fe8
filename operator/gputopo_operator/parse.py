"""Kubernetes objects as values: the only place that knows where their fields are."""

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from gputopo.api.annotations import (
    AnnotationError,
    PlacementAnnotation,
    parse_gpus,
    parse_placement,
)
from gputopo.api.names import SENSITIVITY_ANNOTATION
from gputopo.api.v1alpha1 import GPUJobSpec, GPUJobStatus, GPUProfileSpec, GPUTopologyStatus
from gputopo.runtime.messages import first_error
from gputopo_operator.model import Child, Ending, GpuJob, Key, Object, Pod

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


def read_gpu_job(raw: Object) -> GpuJob:
    """Return a GPUJob; a spec that cannot be read is said in ``spec_error``."""
    metadata = raw["metadata"]
    spec, spec_error = None, ""
    try:
        spec = GPUJobSpec.model_validate(raw.get("spec", {}))
    except ValidationError as error:
        spec_error = first_error(error, prefix="spec")
    return GpuJob(
        key=Key(metadata["namespace"], metadata["name"]),
        uid=metadata["uid"],
        generation=metadata.get("generation", 0),
        labels=metadata.get("labels", {}),
        deleting="deletionTimestamp" in metadata,
        spec=spec,
        spec_error=spec_error,
        status=GPUJobStatus.model_validate(raw.get("status", {})),
    )


def read_child(raw: Object) -> Child:
    """Return a batch/v1 Job, as read or as about to be created."""
    metadata, spec, status = raw["metadata"], raw["spec"], raw.get("status", {})
    pod_annotations = spec["template"].get("metadata", {}).get("annotations", {})
    return Child(
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        owner_uid=_controller_uid(metadata),
        deleting="deletionTimestamp" in metadata,
        suspended=spec.get("suspend", False),
        backoff_limit=spec["backoffLimit"],
        queue=metadata.get("labels", {}).get(QUEUE_LABEL, ""),
        failed=status.get("failed", 0),
        sensitivity=pod_annotations.get(SENSITIVITY_ANNOTATION, ""),
        ending=_ending(status.get("conditions", [])),
    )


def read_pod(raw: Object) -> Pod:
    """Return a pod; annotations that cannot be read count as absent."""
    metadata, status = raw["metadata"], raw.get("status", {})
    containers = status.get("initContainerStatuses", []) + status.get("containerStatuses", [])
    conditions = {condition["type"]: condition for condition in status.get("conditions", [])}
    gpus, generation = _gpus(raw)
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        job_uid=_controller_uid(metadata),
        created=metadata.get("creationTimestamp", ""),
        deleting="deletionTimestamp" in metadata,
        node=raw["spec"].get("nodeName", ""),
        phase=status.get("phase", "Pending"),
        started=any("waiting" not in container.get("state", {}) for container in containers),
        disrupted=conditions.get("DisruptionTarget", {}).get("status") == "True",
        reason=status.get("reason", ""),
        message=status.get("message", ""),
        ended=_first(_ended(container) for container in containers),
        unscheduled=_unscheduled(conditions.get("PodScheduled", {})),
        waiting=_first(_waiting(container) for container in containers),
        gpus=gpus,
        generation=generation,
        placement=_placement(raw) if gpus else None,
    )


def read_profile(raw: Object) -> GPUProfileSpec:
    """Return the user's word on a workload."""
    return GPUProfileSpec.model_validate(raw.get("spec", {}))


def read_observed(raw: Object) -> dict[str, tuple[str, ...]]:
    """Return the GPUs that each pod of a node holds, by UID of the pod, from its GPUTopology."""
    held: dict[str, tuple[str, ...]] = {}
    for gpu in GPUTopologyStatus.model_validate(raw.get("status", {})).gpus:
        if gpu.pod_uid is not None:
            held[gpu.pod_uid] = (*held.get(gpu.pod_uid, ()), gpu.uuid)
    return held


def _controller_uid(metadata: Object) -> str:
    for owner in metadata.get("ownerReferences", []):
        if owner.get("controller"):
            return str(owner["uid"])
    return ""


def _ending(conditions: list[dict[str, Any]]) -> Ending | None:
    for condition in conditions:
        if condition["type"] in {"Complete", "Failed"} and condition["status"] == "True":
            return Ending(
                succeeded=condition["type"] == "Complete",
                reason=condition.get("reason", ""),
                message=condition.get("message", ""),
            )
    return None


def _gpus(raw: Object) -> tuple[tuple[str, ...], int | None]:
    metadata = raw["metadata"]
    try:
        annotation = parse_gpus(metadata.get("annotations", {}))
    except AnnotationError:
        return (), None
    own = (metadata["uid"], raw["spec"].get("nodeName", ""))
    if annotation is None or (annotation.uid, annotation.node) != own:
        return (), None
    uuids = tuple(uuid for ids in annotation.containers.values() for uuid in ids)
    return uuids, annotation.generation


def _placement(raw: Object) -> PlacementAnnotation | None:
    try:
        return parse_placement(raw["metadata"].get("annotations", {}))
    except AnnotationError:
        return None


def _unscheduled(condition: dict[str, Any]) -> tuple[str, str]:
    if condition.get("status") != "False":
        return "", ""
    return condition.get("reason", ""), condition.get("message", "")


def _ended(container: dict[str, Any]) -> str:
    terminated = container.get("state", {}).get("terminated")
    if terminated is None or terminated.get("exitCode") == 0:
        return ""
    code, reason = terminated.get("exitCode"), terminated.get("reason", "Error")
    return f"container {container['name']} ended with code {code} ({reason})"


def _waiting(container: dict[str, Any]) -> str:
    waiting = container.get("state", {}).get("waiting")
    if waiting is None:
        return ""
    words = [waiting.get("reason", ""), waiting.get("message", "")]
    return f"container {container['name']}: " + ": ".join(word for word in words if word)


def _first(texts: Iterable[str]) -> str:
    return next((text for text in texts if text), "")
