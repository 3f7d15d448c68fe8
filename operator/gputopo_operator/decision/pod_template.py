"""Builds the pod template of the child Job from the user's template and the GPUJob."""

import copy
from typing import Any

from gputopo.api.annotations import AnnotationError
from gputopo.api.known_facts import FactsAnnotation, parse_known_facts
from gputopo.api.measuring import MeasuringRequest, format_measuring, parse_metrics_endpoint
from gputopo.api.names import (
    CUDA_VISIBLE_DEVICES,
    FACTS_ANNOTATION,
    GROUP,
    HIDING_VALUES,
    JOB_LABEL,
    NVIDIA_VISIBLE_DEVICES,
    TUNED_LABEL,
)
from gputopo.api.profile import GPUProfile
from gputopo.api.request import RequestAnnotations, format_request
from gputopo.api.shares import share_resource
from gputopo.api.tuning import format_tuning_request
from gputopo.api.v1alpha1 import GPUJobSpec
from gputopo.api.waiting import format_max_wait
from gputopo_kube.document import Document
from gputopo_operator.decision.initial_amounts import set_initial_amounts, tuning_request
from gputopo_operator.decision.sharing_template import end_clients_first, sharing_annotations
from gputopo_operator.decision.spec_error import SpecError
from gputopo_operator.model.jobs import PodDefaults

_AMOUNTS = ("requests", "limits")


def pod_template(
    job: str, spec: GPUJobSpec, profile: GPUProfile | None, defaults: PodDefaults
) -> Document:
    """Return the pod template of the GPUJob with the name ``job``.

    Raises:
        SpecError: the user's template sets a field that gputopo sets; gputopo should size the pod
            and the template has no CPU request or no CPU limit; or the job may share its GPU and
            the installation shares none.
    """
    template = copy.deepcopy(spec.template)
    pod = _mapping(template, "spec", "spec.template")
    metadata = _mapping(template, "metadata", "spec.template")
    _reject_reserved_fields(metadata, pod, defaults)
    if spec.sharing.mode == "Allowed" and not defaults.shares:
        raise SpecError(
            "spec.sharing.mode: 'Allowed' needs sharing.enabled in the installation; use Exclusive"
        )
    annotations = _mapping(metadata, "annotations", "spec.template.metadata")
    annotations.update(format_request(RequestAnnotations.of_job(spec)))
    annotations.update(format_max_wait(spec.placement.max_wait_seconds))
    annotations.update(format_measuring(_measuring(spec)))
    annotations.update(_facts(profile, spec.workload.profile))
    annotations.update(format_tuning_request(tuning_request(spec.resources)))
    labels = _mapping(metadata, "labels", "spec.template.metadata")
    labels[JOB_LABEL] = job
    if spec.resources.mode != "Fixed":
        labels[TUNED_LABEL] = "true"
    annotations.update(sharing_annotations(spec.sharing))
    pod["schedulerName"] = defaults.scheduler_name
    pod["restartPolicy"] = "Never"
    _set_priority_class(pod, spec)
    chosen = _request_gpus(pod, spec, defaults.resource)
    if spec.sharing.mode == "Allowed":
        end_clients_first(chosen, spec.sharing, pod.get("terminationGracePeriodSeconds"))
    return template


def _facts(profile: GPUProfile | None, name: str | None) -> dict[str, str]:
    """Return the annotation with facts about the workload, declared by the user or measured."""
    if profile is None or name is None:
        return {}
    percent, known = profile.spec.bandwidth_sensitivity_percent, profile.status.pod_annotation
    measured = {} if known is None else {FACTS_ANNOTATION: known}
    if percent is None:
        return measured
    # The status may be older than the declared value. The patterns do not depend on this value.
    facts = parse_known_facts(measured)
    declared = FactsAnnotation.declared(name, percent, facts.patterns if facts else {})
    return {FACTS_ANNOTATION: declared.dump()}


def _measuring(spec: GPUJobSpec) -> MeasuringRequest:
    throughput, field = spec.profiling.throughput, "spec.profiling.throughput.metrics"
    try:
        metrics = throughput.metrics and parse_metrics_endpoint(throughput.metrics, field)
    except AnnotationError as error:
        raise SpecError(str(error)) from None
    return MeasuringRequest(
        profile=spec.workload.profile,
        source=throughput.source,
        metrics=metrics or None,
        targets=tuple(spec.profiling.measure),
        profiling_seconds=spec.profiling.max_seconds,
    )


def _reject_reserved_fields(metadata: Document, pod: Document, defaults: PodDefaults) -> None:
    """Reject a template that sets a field that gputopo sets."""
    for field in ("annotations", "labels"):
        for name in _mapping(metadata, field, "spec.template.metadata"):
            if str(name).startswith(f"{GROUP}/"):
                raise SpecError(
                    f"spec.template.metadata.{field}[{name}]: gputopo sets names with this prefix; "
                    "remove this name and use spec.communication or spec.placement"
                )
    scheduler = pod.get("schedulerName", defaults.scheduler_name)
    if scheduler != defaults.scheduler_name:
        raise SpecError(
            f"spec.template.spec.schedulerName: {scheduler!r} differs from "
            f"{defaults.scheduler_name!r}; remove this field"
        )
    policy = pod.get("restartPolicy", "Never")
    if policy != "Never":
        raise SpecError(
            f"spec.template.spec.restartPolicy: {policy!r} is not yet supported; use Never "
            "or remove this field"
        )
    if "nodeName" in pod:
        raise SpecError(
            f"spec.template.spec.nodeName: {pod['nodeName']!r} bypasses the scheduler; use "
            "nodeSelector or affinity"
        )


def _set_priority_class(pod: Document, spec: GPUJobSpec) -> None:
    if spec.priority_class_name is None:
        return
    given = pod.get("priorityClassName", spec.priority_class_name)
    if given != spec.priority_class_name:
        raise SpecError(
            f"spec.template.spec.priorityClassName: {given!r} differs from "
            f"spec.priorityClassName {spec.priority_class_name!r}; remove one of the two fields"
        )
    pod["priorityClassName"] = spec.priority_class_name


def _request_gpus(pod: Document, spec: GPUJobSpec, resource: str) -> Document:
    """Add GPUs, CPU and memory to one container, and return it; check all containers."""
    containers = _containers(pod, "containers", resource)
    init_containers = _containers(pod, "initContainers", resource)
    chosen = _gpu_container(containers, spec.resources.container)
    for field, each in (("containers", containers), ("initContainers", init_containers)):
        for index, container in enumerate(each):
            where = f"spec.template.spec.{field}[{index}].env"
            _reject_visible_devices(container, where, has_gpus=container is chosen)
    resources = _mapping(chosen, "resources", "")
    for kind in _AMOUNTS:
        shared = spec.sharing.mode == "Allowed"
        name = share_resource(resource) if shared else resource
        _mapping(resources, kind, "")[name] = str(spec.gpus_per_replica)
    set_initial_amounts(chosen, spec.resources)
    return chosen


def _reject_visible_devices(container: Document, where: str, *, has_gpus: bool) -> None:
    """Reject environment variables that the admission policy ``gputopo-environment`` rejects."""
    env = container.get("env") or []
    if not isinstance(env, list):
        raise SpecError(f"{where}: {env!r} is not a list")
    for index, entry in enumerate(env):
        if not isinstance(entry, dict):
            raise SpecError(f"{where}[{index}]: {entry!r} is not an object")
        name = entry.get("name")
        if not isinstance(name, str):
            raise SpecError(f"{where}[{index}].name: {name!r} is not a string")
        value = entry.get("valueFrom") or entry.get("value") or ""
        if name not in {NVIDIA_VISIBLE_DEVICES, CUDA_VISIBLE_DEVICES}:
            continue
        if has_gpus or str(value) not in HIDING_VALUES:
            raise SpecError(
                f"{where}[{name}]: {value!r} is not allowed; remove this variable, because "
                "gputopo sets it in the container with GPUs (other containers may set 'void')"
            )


def _gpu_container(containers: list[Document], name: str | None) -> Document:
    """Return the container that gets the GPUs: the one with this name, or the first container."""
    if not containers:
        raise SpecError("spec.template.spec.containers: [] is empty; add a container")
    if name is None:
        return containers[0]
    for container in containers:
        if container.get("name") == name:
            return container
    names = ", ".join(str(container.get("name")) for container in containers)
    raise SpecError(
        f"spec.resources.container: {name!r} is not a container of the template; use one of {names}"
    )


def _containers(pod: Document, field: str, resource: str) -> list[Document]:
    """Return the containers in ``pod[field]``. Reject containers that request GPUs themselves."""
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
            for name in amounts.keys() & {resource, share_resource(resource)}:
                raise SpecError(
                    f"{where}[{index}].resources.{kind}[{name}]: {amounts[name]!r} is not "
                    "allowed; remove it, because spec.gpusPerReplica sets the number of GPUs"
                )
    return containers


def _mapping(parent: Document, field: str, where: str) -> dict[str, Any]:
    """Return the object ``parent[field]``. Create the object if it is missing."""
    value = parent.get(field)
    if value is None:
        value = parent[field] = {}
    if not isinstance(value, dict):
        raise SpecError(f"{where}.{field}: {value!r} is not an object")
    return value
