"""Parses the objects for measuring a pod with several CPU limits: pod and node."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from gputopo.api.annotations import AnnotationError
from gputopo.api.measuring import MeasuringRequest, parse_measuring
from gputopo.api.names import (
    PROFILE_ANNOTATION,
    PROFILING_ANNOTATION,
    PROFILING_LABEL,
    PROFILING_STATE_ANNOTATION,
    RESOURCE,
)
from gputopo.api.profiling import CpuAmounts, ProfilingState, parse_profiling_state
from gputopo.api.quantity import parse_thousandths
from gputopo.api.tuning import parse_tuning_request
from gputopo.profiling.model import ProfiledPod
from gputopo_kube.document import Document
from gputopo_kube.gpu_containers import ContainerKind
from gputopo_kube.podmodel import PodObject, known_parts, parse_pod_object
from gputopo_kube.podrequests import CPU, counted_requests
from gputopo_kube.podruntime import runtime_of
from gputopo_kube.pods import PodView, view_of
from gputopo_kube.podstatus import ContainerResources
from gputopo_kube.tuned_node import allocatable
from gputopo_kube.tuned_pod import is_tuned, restart_obstacle
from gputopo_operator.parse.reports import CPUS

_IMPOSSIBLE: Final = (
    f"{PROFILING_STATE_ANNOTATION}: its CPUs do not fit to those of the pod; the measurement ends, "
    "and the pod keeps its current CPUs"
)


def parse_profiled_pod(raw: Document, resource: str) -> tuple[ProfiledPod, MeasuringRequest]:
    """Parse a pod and its annotations that request a measurement.

    Raises:
        PodError: the object is not a valid pod; the message names the field.
    """
    pod = parse_pod_object(raw)
    view = view_of(pod, resource)
    labels = raw["metadata"].get("labels") or {}
    request, state, obstacle = _annotations(view, labels)
    containers = [each for each in view.containers if each.kind is ContainerKind.APPLICATION]
    name = containers[0].name if containers else pod.spec.containers[0].name
    spec = next(each for each in pod.spec.containers if each.name == name)
    cpu = _cpu(spec.resources or ContainerResources())
    lasting = _container_obstacle(view) or restart_obstacle(spec)
    if state is not None and (lasting or not state.is_possible(name, cpu)):
        # No part of it can come from the operator: it counts for nothing.
        state, lasting = None, lasting or _IMPOSSIBLE
    problem, message = pod.unapplied_resize or (None, "")
    profiled = ProfiledPod(
        uid=view.uid,
        container=name,
        gpus=containers[0].gpus if containers else 0,
        cpu=cpu,
        applied_milli_cpu=runtime_of(pod).containers[name].milli_cpu,
        problem=problem,
        problem_message=message,
        sized=is_tuned(view, labels),
        most_milli_cpu=_most_milli_cpu(view),
        obstacle=obstacle or lasting,
        requested=CPUS in request.targets,
        deleting=view.deleting,
        running=view.live,
        state=state,
    )
    return profiled, request


def available_milli_cpu(
    node: Document,
    pods: Iterable[Document],
    pod_uid: str,
    container: str,
    resource: str = RESOURCE,
) -> int:
    """Return how much CPU of a node is left for ``container`` of the pod ``pod_uid``.

    This is the CPU that no other container on the node requests. If a measurement has lowered the
    request of another pod, its original request counts too, because the operator will restore it.
    The original request comes from an annotation of the other pod. So it counts only as far as it
    takes nothing from the CPUs that ``container`` requests or will get back.
    """
    available = allocatable(node)[CPU]
    own, lent = 0, 0
    for raw in pods:
        pod = known_parts(raw)  # one of a newer Kubernetes still has its CPUs
        view = view_of(pod, resource)
        if not view.live:
            continue
        if pod.metadata.uid == pod_uid:
            available -= _beside(pod, container)
            own = counted_requests(pod, only=container)[CPU] + _lent(pod, view)
        else:
            available -= counted_requests(pod)[CPU]
            lent += _lent(pod, view)
    return max(0, available - min(lent, max(0, available - own)))


def waiting_milli_cpu(page: Document) -> tuple[int, ...] | None:
    """Return the CPU requests of unbound pods; None if ``page`` is only a part of the list."""
    if (page.get("metadata") or {}).get("continue"):
        return None
    pods = map(known_parts, page.get("items") or ())
    return tuple(counted_requests(pod)[CPU] for pod in pods)


def _annotations(
    view: PodView, labels: Mapping[str, str]
) -> tuple[MeasuringRequest, ProfilingState | None, str]:
    """Parse the annotations. The last value is why the pod cannot be measured, or ""."""
    try:
        request = parse_measuring(view.annotations)
    except AnnotationError as error:
        request, obstacle = MeasuringRequest(), str(error)
    else:
        missing = f"the pod has no annotation {PROFILE_ANNOTATION}; set it to a GPUProfile"
        obstacle = "" if request.profile else missing
    kept = "; the measurement ends, and the pod keeps its current CPUs"
    try:
        state = parse_profiling_state(view.annotations, view.uid)
    except AnnotationError as error:
        return request, None, str(error) + kept
    if state is None and PROFILING_LABEL in labels:
        return request, None, "the annotation with the pod's own CPUs was removed" + kept
    return request, state, obstacle


def _most_milli_cpu(view: PodView) -> int | None:
    """Return the user's CPU bound; None if missing, or if invalid, which the tuner reports."""
    with suppress(AnnotationError):
        return parse_tuning_request(view.annotations).most_milli_cpu
    return None


def _cpu(resources: ContainerResources) -> CpuAmounts | None:
    request = parse_thousandths(resources.quantity("cpu"))
    limit = parse_thousandths((resources.limits or {}).get("cpu"))
    return CpuAmounts(request=request, limit=limit) if request and limit else None


def _beside(pod: PodObject, container: str) -> int:
    """Return the CPU that kube-scheduler counts for a pod beside that of one container."""
    running = counted_requests(pod, started=True)
    return running[CPU] - counted_requests(pod, only=container)[CPU]


def _lent(pod: PodObject, view: PodView) -> int:
    """Return by how many thousandths of a CPU a measurement has lowered the request of a pod."""
    metadata = pod.metadata
    measured = PROFILING_LABEL in (metadata.labels or {}) and not _container_obstacle(view)
    try:
        state = parse_profiling_state(metadata.annotations or {}, metadata.uid)
    except AnnotationError:
        return 0
    if state is None or state.restored or not measured:
        return 0
    spec = next((each for each in pod.spec.containers if each.name == state.container), None)
    cpu = _cpu((spec and spec.resources) or ContainerResources())
    if not state.is_possible(view.containers[0].name, cpu):
        return 0
    return max(0, state.original.request - counted_requests(pod, only=state.container)[CPU])


def _container_obstacle(view: PodView) -> str:
    """Return why no container of the pod can be measured, with the remedy; empty if one can."""
    kinds = [each.kind for each in view.containers]
    if kinds == [ContainerKind.APPLICATION]:
        return ""
    return (
        "CPUs are measured only in a pod with one container with GPUs, and no init containers "
        f"or sidecars with GPUs; remove the annotation {PROFILING_ANNOTATION}"
    )
