"""The batch/v1 Job that runs a GPUJob."""

import copy
from typing import Any, Final

from gputopo.api.annotations import RequestAnnotations, format_request
from gputopo.api.names import (
    API_VERSION,
    CUDA_VISIBLE_DEVICES,
    GROUP,
    HIDING_VALUES,
    JOB_LABEL,
    NVIDIA_VISIBLE_DEVICES,
)
from gputopo.api.v1alpha1 import GPUJobSpec, GPUProfileSpec
from gputopo.errors import InvalidInputError
from gputopo.sensitivity.resolve import Sensitivity, resolve
from gputopo_operator.model import GpuJob, Object, Rules
from gputopo_operator.parse import QUEUE_LABEL

SPARE_FAILURES: Final = 10
"""How many failures more than the GPUJob's own limits its child Job bears.

The Job controller counts pods that somebody deleted as failed, the operator does not. The
spare ones let it raise the limit in time; and while no operator runs, they are the end.
"""

_AMOUNTS = ("requests", "limits")
_KUEUE_PREFIX = QUEUE_LABEL.partition("/")[0] + "/"


class SpecError(InvalidInputError):
    """A spec that contradicts itself or asks for what gputopo cannot do yet.

    The message names the field, its value and what to do.
    """


def child_job(
    job: GpuJob, spec: GPUJobSpec, profile: GPUProfileSpec | None, rules: Rules
) -> Object:
    """Return the Job to create.

    Raises:
        SpecError: where the template says what gputopo sets, or what it cannot do yet.
    """
    if spec.resources.mode != "Fixed":
        mode = spec.resources.mode
        raise SpecError(f"spec.resources.mode: {mode!r} is not yet supported; say Fixed")
    queue_labels = {k: v for k, v in job.labels.items() if k.startswith(_KUEUE_PREFIX)}
    child_spec: Object = {
        "parallelism": 1,
        "completions": 1,
        "backoffLimit": failures_borne(spec),
        # GPUs are free only when a pod has really ended; a pod that the cluster took away
        # is no failure of the job.
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {
            "rules": [
                {
                    "action": "Ignore",
                    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                }
            ]
        },
        # Under a queue it is the queue that starts the job.
        "suspend": spec.suspend or QUEUE_LABEL in queue_labels,
        "template": _template(job, spec, profile, rules),
    }
    if spec.limits.active_deadline_seconds is not None:
        child_spec["activeDeadlineSeconds"] = spec.limits.active_deadline_seconds
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job.key.name,
            "namespace": job.key.namespace,
            "labels": {**queue_labels, JOB_LABEL: job.key.name},
            "ownerReferences": [_owner_reference(job)],
        },
        "spec": child_spec,
    }


def failures_borne(spec: GPUJobSpec) -> int:
    """Return the least ``backoffLimit`` that leaves the counting to the operator."""
    return spec.limits.backoff_limit + spec.limits.max_admission_retries + SPARE_FAILURES


def stated_sensitivity(spec: GPUJobSpec, profile: GPUProfileSpec | None) -> Sensitivity:
    """Return what the pod shall say: Auto stays Auto where no profile knows better."""
    resolved = resolve(
        spec.communication.bandwidth_sensitivity,
        gpus=spec.gpus_per_replica,
        profile_percent=profile.bandwidth_sensitivity_percent if profile else None,
    )
    if resolved.reason not in {"Declared", "Profile"}:
        return Sensitivity.AUTO
    return Sensitivity.SENSITIVE if resolved.sensitive else Sensitivity.INSENSITIVE


def _owner_reference(job: GpuJob) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": "GPUJob",
        "name": job.key.name,
        "uid": job.uid,
        "controller": True,
        # With true the operator would need rights on gpujobs/finalizers where the admission plugin
        # OwnerReferencesPermissionEnforcement is enabled; only foreground deletion differs.
        "blockOwnerDeletion": False,
    }


def _template(
    job: GpuJob, spec: GPUJobSpec, profile: GPUProfileSpec | None, rules: Rules
) -> Object:
    template = copy.deepcopy(spec.template)
    pod = _mapping(template, "spec", "spec.template")
    metadata = _mapping(template, "metadata", "spec.template")
    _refuse_what_is_ours(metadata, pod, rules)
    request = RequestAnnotations(
        pattern=spec.communication.pattern,
        edges=tuple(edge.to_pattern_edge() for edge in spec.communication.edges),
        sensitivity=stated_sensitivity(spec, profile),
        policy=spec.placement.policy,
    )
    _mapping(metadata, "annotations", "spec.template.metadata").update(format_request(request))
    _mapping(metadata, "labels", "spec.template.metadata")[JOB_LABEL] = job.key.name
    pod["schedulerName"] = rules.scheduler_name
    pod["restartPolicy"] = "Never"
    _set_priority_class(pod, spec)
    _request_gpus(pod, spec, rules)
    return template


def _refuse_what_is_ours(metadata: Object, pod: Object, rules: Rules) -> None:
    for field in ("annotations", "labels"):
        for name in _mapping(metadata, field, "spec.template.metadata"):
            if str(name).startswith(f"{GROUP}/"):
                raise SpecError(
                    f"spec.template.metadata.{field}[{name}]: gputopo sets this from the rest of "
                    "the GPUJob; say it in spec.communication or spec.placement"
                )
    scheduler = pod.get("schedulerName", rules.scheduler_name)
    if scheduler != rules.scheduler_name:
        raise SpecError(
            f"spec.template.spec.schedulerName: {scheduler!r} is not {rules.scheduler_name!r}; "
            "leave it out"
        )
    policy = pod.get("restartPolicy", "Never")
    if policy != "Never":
        raise SpecError(
            f"spec.template.spec.restartPolicy: {policy!r} is not yet supported; "
            "leave it out or say Never"
        )
    if "nodeName" in pod:
        raise SpecError(
            f"spec.template.spec.nodeName: {pod['nodeName']!r} would pass by the scheduler; "
            "use nodeSelector or affinity"
        )


def _set_priority_class(pod: Object, spec: GPUJobSpec) -> None:
    if spec.priority_class_name is None:
        return
    given = pod.get("priorityClassName", spec.priority_class_name)
    if given != spec.priority_class_name:
        raise SpecError(
            f"spec.template.spec.priorityClassName: {given!r} is not "
            f"spec.priorityClassName {spec.priority_class_name!r}; leave one of them out"
        )
    pod["priorityClassName"] = spec.priority_class_name


def _request_gpus(pod: Object, spec: GPUJobSpec, rules: Rules) -> None:
    containers = _containers(pod, "containers", rules)
    init_containers = _containers(pod, "initContainers", rules)
    chosen = _chosen_container(containers, spec.resources.container)
    for field, each in (("containers", containers), ("initContainers", init_containers)):
        for index, container in enumerate(each):
            where = f"spec.template.spec.{field}[{index}].env"
            _reject_visible_devices(container, where, has_gpus=container is chosen)
    resources = _mapping(chosen, "resources", "")
    for kind in _AMOUNTS:
        _mapping(resources, kind, "")[rules.resource] = str(spec.gpus_per_replica)


def _reject_visible_devices(container: Object, where: str, *, has_gpus: bool) -> None:
    """Reject what the chart's policy ``environment`` would reject in the pod."""
    env = container.get("env") or []
    if not isinstance(env, list):
        raise SpecError(f"{where}: {env!r} is not a list")
    for index, entry in enumerate(env):
        if not isinstance(entry, dict):
            raise SpecError(f"{where}[{index}]: {entry!r} is not an object")
        name = entry.get("name")
        value = entry.get("valueFrom") or entry.get("value") or ""
        if name not in {NVIDIA_VISIBLE_DEVICES, CUDA_VISIBLE_DEVICES}:
            continue
        if has_gpus or str(value) not in HIDING_VALUES:
            raise SpecError(
                f"{where}[{name}]: {value!r}: leave it out; gputopo sets it in the container with "
                "GPUs (others may say 'void')"
            )


def _chosen_container(containers: list[Object], name: str | None) -> Object:
    if not containers:
        raise SpecError("spec.template.spec.containers: [] has no container")
    if name is None:
        return containers[0]
    for container in containers:
        if container.get("name") == name:
            return container
    names = ", ".join(str(container.get("name")) for container in containers)
    raise SpecError(
        f"spec.resources.container: {name!r} is not a container of the template, which has {names}"
    )


def _containers(pod: Object, field: str, rules: Rules) -> list[Object]:
    containers = pod.get(field, [])
    where = f"spec.template.spec.{field}"
    if not isinstance(containers, list):
        raise SpecError(f"{where}: {containers!r} is not a list")
    for index, container in enumerate(containers):
        if not isinstance(container, dict):
            raise SpecError(f"{where}[{index}]: {container!r} is not an object")
        resources = _mapping(container, "resources", f"{where}[{index}]")
        for kind in _AMOUNTS:
            amounts = _mapping(resources, kind, f"{where}[{index}].resources")
            if rules.resource in amounts:
                raise SpecError(
                    f"{where}[{index}].resources.{kind}[{rules.resource}]: "
                    f"{amounts[rules.resource]!r}: spec.gpusPerReplica sets this; leave it out"
                )
    return containers


def _mapping(parent: Object, field: str, where: str) -> dict[str, Any]:
    """Return the object in this field, made where it is missing."""
    value = parent.get(field)
    if value is None:
        value = parent[field] = {}
    if not isinstance(value, dict):
        raise SpecError(f"{where}.{field}: {value!r} is not an object")
    return value
