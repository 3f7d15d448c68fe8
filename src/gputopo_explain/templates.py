"""Makes the pod that a workload would create: a Pod, a GPUJob, or an object with a pod template.

A what-if question has a manifest that the API server has not seen. A waiting GPUJob has a Job, but
no pod. The result has what placement needs, not every field that the API server would set.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from pydantic import ValidationError

from gputopo.api.names import RESOURCE, SCHEDULER_NAME
from gputopo.api.request import RequestAnnotations, format_request
from gputopo.api.shares import format_sharing, share_resource
from gputopo.api.v1alpha1 import GPUJobSpec
from gputopo.errors import InvalidInputError
from gputopo.runtime.messages import first_error, quoted
from gputopo_explain.manifest_rules import ManifestRules
from gputopo_kube.document import Document

GPU_JOB: Final = "GPUJob"

_TEMPLATES: Final = {
    "Deployment": ("template",),
    "StatefulSet": ("template",),
    "ReplicaSet": ("template",),
    "DaemonSet": ("template",),
    "Job": ("template",),
    "CronJob": ("jobTemplate", "spec", "template"),
}


WORKLOADS: Final = ("Pod", GPU_JOB, *_TEMPLATES)
"""The kinds of objects for which :func:`pod_of` makes a pod."""


class ManifestError(InvalidInputError):
    """The object is not a workload, or a field is invalid; the message names the field."""


def pod_of(
    workload: Document,
    *,
    resource: str = RESOURCE,
    scheduler: str = SCHEDULER_NAME,
    priorities: Mapping[str, int] | None = None,
) -> Document:
    """Return a pod that the object would create, or the object itself if it is a Pod.

    Args:
        workload: a Pod, a GPUJob, or an object of Kubernetes with a pod template.
        resource: extended resource that counts the GPUs.
        scheduler: scheduler of the pods of GPUJobs.
        priorities: value of each PriorityClass (:func:`gputopo_kube.priorities.priorities_of`).

    Raises:
        ManifestError: if the object is none of these, or has an invalid field.
    """
    kind = workload.get("kind")
    metadata = _mapping(workload, "metadata")
    if kind == "Pod":
        template = deepcopy(workload)
    elif kind == GPU_JOB:
        template = _template_of_gpu_job(_mapping(workload, "spec"), resource, scheduler)
    elif kind in _TEMPLATES:
        template = deepcopy(workload)
        for part in ("spec", *_TEMPLATES[str(kind)]):
            template = _mapping(template, part)
    else:
        known = ", ".join(WORKLOADS)
        raise ManifestError(f"kind: {quoted(kind)} is not one of {known}")
    return _named_pod(template, metadata, priorities or {})


def _named_pod(template: Document, metadata: Document, priorities: Mapping[str, int]) -> Document:
    own, spec = _mapping(template, "metadata"), _mapping(template, "spec")
    try:
        ManifestRules.model_validate(spec)
    except ValidationError as error:
        raise ManifestError(first_error(error, prefix="spec")) from None
    name = str(own.get("name") or metadata.get("name") or own.get("generateName") or "pod")
    identity = {
        "name": name,
        "namespace": str(metadata.get("namespace") or own.get("namespace") or "default"),
        "uid": str(metadata.get("uid") or f"{name} of a manifest"),
        "resourceVersion": "1",
    }
    if not isinstance(spec.get("priority"), int):
        named = str(spec.get("priorityClassName") or "")
        # The priority of an unknown class is unknown, that of no class is 0 without a default.
        spec = {**spec, "priority": priorities.get(named, None if named else 0)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**own, **identity},
        "spec": spec,
        "status": template.get("status") or {},
    }


def _template_of_gpu_job(raw: Document, resource: str, scheduler: str) -> Document:
    """Return the pod template of the Job that the operator creates for a GPUJob.

    Without the measured facts of the GPUProfile, which the operator adds.
    """
    try:
        spec = GPUJobSpec.model_validate(raw)
    except ValidationError as error:
        raise ManifestError(first_error(error, prefix="spec")) from None
    template = deepcopy(spec.template)
    _mapping(_mapping(template, "metadata"), "annotations").update(
        format_request(RequestAnnotations.of_job(spec))
    )
    pod = _mapping(template, "spec", "spec.template")
    pod["schedulerName"] = scheduler
    if spec.priority_class_name is not None:
        pod["priorityClassName"] = spec.priority_class_name
    containers = pod.get("containers") or []
    if not isinstance(containers, list):
        raise ManifestError(f"spec.template.spec.containers: {quoted(containers)} is not a list")
    names = [each.get("name") for each in containers if isinstance(each, dict)]
    chosen = spec.resources.container or (names[0] if names else None)
    if chosen not in names or len(names) != len(containers):
        raise ManifestError(
            f"spec.template.spec.containers: no container {quoted(chosen)}; add a container"
        )
    amounts = _mapping(containers[names.index(chosen)], "resources")
    name = resource
    if spec.sharing.mode == "Allowed":
        name = share_resource(resource)
        _mapping(_mapping(template, "metadata"), "annotations").update(
            format_sharing(spec.sharing.limits)
        )
    for kind in ("requests", "limits"):
        _mapping(amounts, kind)[name] = str(spec.gpus_per_replica)
    return template


def _mapping(parent: Document, field: str, where: str = "") -> dict[str, Any]:
    """Return the object ``parent[field]``; create it if it is missing."""
    value = parent.get(field)
    if value is None:
        value = parent[field] = {}
    if not isinstance(value, dict):
        path = f"{where}.{field}" if where else field
        raise ManifestError(f"{path}: {quoted(value)} is not an object")
    return value
