"""Parses one pod that gputopo sizes: its amounts, its record, and what kubelet reports."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from gputopo.api.annotations import AnnotationError
from gputopo.api.measuring import MeasuringRequest, parse_measuring
from gputopo.api.names import PROFILING_LABEL, RESOURCES_MODE_ANNOTATION, TUNED_LABEL
from gputopo.api.profiling import parse_profiling_state
from gputopo.api.quantity import parse_thousandths
from gputopo.api.tuning import (
    Amounts,
    ResourcesMode,
    TunedRecord,
    TuningRequest,
    parse_tuned_record,
    parse_tuning_request,
)
from gputopo.runtime.times import seconds_since
from gputopo.tuning.model import ContainerAmounts, ResizeState, TunedPod
from gputopo.tuning.observed import (
    awaits_measurement,
    memory_of_kill,
    requests_in_effect,
    while_measured,
)
from gputopo_kube.document import Document
from gputopo_kube.gpu_containers import ContainerKind
from gputopo_kube.podmodel import Container, PodObject
from gputopo_kube.podrequests import counted_requests
from gputopo_kube.pods import PodView
from gputopo_kube.podstatus import ContainerResources, ContainerStatus

_INVALID: Final = TuningRequest(ResourcesMode.PROPORTIONAL)
"""Mode of a pod whose annotation is not valid. The pod is not resized."""


def is_tuned(view: PodView, labels: Mapping[str, str]) -> bool:
    """Return whether gputopo sizes the pod, by its label and its annotation."""
    mode = view.annotations.get(RESOURCES_MODE_ANNOTATION, ResourcesMode.FIXED.value)
    return labels.get(TUNED_LABEL) == "true" and mode != ResourcesMode.FIXED.value


def held_beside_sizing(pod: PodObject, view: PodView, *, sized: bool) -> Counter[str]:
    """Return what kube-scheduler counts for a pod, without the container that gputopo sizes.

    The amounts are thousandths, by resource.
    """
    held = counted_requests(pod)
    if sized:
        held -= counted_requests(pod, only=_sized_container(pod, view))
    return held


def parse_tuned_pod(
    raw: Document, pod: PodObject, view: PodView, now: datetime
) -> tuple[Container, TunedPod]:
    """Return the container that is resized, and the pod; its facts and rate are not set yet.

    Args:
        raw: the Pod object.
        pod: the parsed Pod object.
        view: the view that was made from ``pod``.
        now: time in UTC.
    """
    gpu_containers = [it for it in view.containers if it.kind is ContainerKind.APPLICATION]
    name = _sized_container(pod, view)
    container = next(each for each in pod.spec.containers if each.name == name)
    status = next((each for each in pod.status.containers if each.name == name), None)
    request, obstacle = _request(view)
    record, unreadable = _record(view)
    spec = _amounts(container.resources)
    tuned = TunedPod(
        uid=view.uid,
        name=view.name,
        mode=request.mode,
        gpus=sum(each.gpus for each in gpu_containers),
        spec=spec,
        state=_resize_state(pod, spec, status),
        record=record,
        unreadable=unreadable,
        most_milli_cpu=request.most_milli_cpu,
        most_memory=request.most_memory,
        obstacle=obstacle or _gpu_obstacle(view) or container_obstacle(pod, container),
        out_of_memory_at=_out_of_memory_at(spec, status, record),
    )
    return container, _while_measured(raw, pod, view, tuned, now)


def _sized_container(pod: PodObject, view: PodView) -> str:
    """Return the name of the first container with GPUs."""
    found = (each.name for each in view.containers if each.kind is ContainerKind.APPLICATION)
    return next(found, pod.spec.containers[0].name)


def restarts_for(container: Container, resource: str) -> bool:
    """Return whether a resize of this resource would restart the container."""
    return any(
        policy.get("resourceName") == resource and policy.get("restartPolicy") != "NotRequired"
        for policy in container.resize_policy or ()
    )


def _request(view: PodView) -> tuple[TuningRequest, str]:
    """Return what the pod requests, and why a value is not valid, or ""."""
    try:
        return parse_tuning_request(view.annotations), ""
    except AnnotationError as error:
        return _INVALID, str(error)


def _record(view: PodView) -> tuple[TunedRecord | None, str]:
    """Return the operator's record, and why it cannot be parsed, or ""."""
    try:
        return parse_tuned_record(view.annotations, view.uid), ""
    except AnnotationError as error:
        return None, str(error)


def container_obstacle(pod: PodObject, container: Container) -> str:
    """Return why this container of the pod cannot be resized, with the remedy; empty if it can."""
    name, spec = container.name, _amounts(container.resources)
    if not spec.request.milli_cpu or not spec.limit_milli_cpu:
        return (
            f"container {name} has no CPU request or no CPU limit; set both under "
            "resources.requests and resources.limits"
        )
    if pod.spec.pod_resources is not None:
        return "spec.resources: resources of the whole pod cannot be sized; remove them"
    return restart_obstacle(container)


def restart_obstacle(container: Container) -> str:
    """Return why a change of the CPUs would restart the container; empty if it would not."""
    if not restarts_for(container, "cpu"):
        return ""
    return (
        f"resizePolicy of container {container.name}: a change of its CPUs would restart it; set "
        "restartPolicy NotRequired for cpu"
    )


def _gpu_obstacle(view: PodView) -> str:
    """Return why no container can be chosen for the resizes, with the remedy; empty if one can."""
    if len(view.containers) != 1 or view.containers[0].kind is not ContainerKind.APPLICATION:
        return (
            "only a pod with one container with GPUs is sized; remove the GPUs of the other "
            f"containers, or the annotation {RESOURCES_MODE_ANNOTATION}"
        )
    return ""


def _amounts(resources: ContainerResources | None) -> ContainerAmounts:
    found = resources or ContainerResources()
    limits = found.limits or {}
    return ContainerAmounts(
        request=Amounts(
            parse_thousandths(found.quantity("cpu")) or 0, _bytes(found.quantity("memory")) or 0
        ),
        limit_milli_cpu=parse_thousandths(limits.get("cpu")),
        limit_memory=_bytes(limits.get("memory")),
    )


def _bytes(quantity: object) -> int | None:
    thousandths = parse_thousandths(quantity)
    return None if thousandths is None else -(-thousandths // 1000)


def _resize_state(
    pod: PodObject, spec: ContainerAmounts, status: ContainerStatus | None
) -> ResizeState:
    problem, message = pod.unapplied_resize or (None, "")
    if status is None:
        return ResizeState(problem=problem, message=message)
    held, applied = status.allocated_resources, status.resources
    return ResizeState(
        allocated=_amounts(ContainerResources(requests=held)).request if held else None,
        applied=requests_in_effect(spec, _amounts(applied)) if applied else None,
        problem=problem,
        message=message,
    )


def _out_of_memory_at(
    spec: ContainerAmounts, status: ContainerStatus | None, record: TunedRecord | None
) -> int:
    """Return the memory limit at which the container was last killed for memory, or 0."""
    ended = status and _last_termination(status)
    if not status or not ended or ended.get("reason") != "OOMKilled":
        return 0
    limits = (status.resources and status.resources.limits) or {}
    now = _bytes(limits.get("memory"))
    return memory_of_kill(spec, now, record, ended.get("finishedAt"))


def _last_termination(status: ContainerStatus) -> Mapping[str, Any] | None:
    former = (status.last_state or {}).get("terminated")
    return status.terminated or (former if isinstance(former, dict) else None)


def _while_measured(
    raw: Document, pod: PodObject, view: PodView, tuned: TunedPod, now: datetime
) -> TunedPod:
    try:
        state = parse_profiling_state(view.annotations, view.uid)
        request = parse_measuring(view.annotations)
    except AnnotationError:
        state, request = None, MeasuringRequest()  # the profiler reports this, and ends
    labelled = PROFILING_LABEL in (raw["metadata"].get("labels") or {})
    started = pod.status.start_time
    running = None if started is None else seconds_since(started, now)
    active = (
        labelled or not view.running or (state is None and awaits_measurement(request, running))
    )
    return while_measured(tuned, state, active=active)
