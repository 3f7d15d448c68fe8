"""Parses what shows whether the Job controller could create the pod of a Job."""

from collections.abc import Iterable
from contextlib import suppress

from gputopo.runtime.times import unix_seconds
from gputopo_kube.document import Document
from gputopo_kube.podmodel import PodError, parse_pod_object
from gputopo_kube.pods import view_of
from gputopo_operator.model.jobs import CreatedPod, FailedCreate
from gputopo_operator.parse.readable import each_readable

_CONTROLLER = "job-controller"


def parse_failed_creates(events: Iterable[Document]) -> tuple[FailedCreate, ...]:
    """Return the failed attempts; events of other components or without a time are left out."""
    return tuple(each for each in each_readable(_failed_create, events) if each is not None)


def parse_created_pod(pod: Document, resource: str) -> CreatedPod:
    """Return a pod; one that cannot be parsed may have GPUs."""
    metadata, without_gpus = pod["metadata"], False
    with suppress(PodError):
        view = view_of(parse_pod_object(pod), resource)
        without_gpus = view.live and not view.containers
    return CreatedPod(metadata["name"], metadata["creationTimestamp"], without_gpus)


def _failed_create(event: Document) -> FailedCreate | None:
    component = event.get("reportingComponent") or (event.get("source") or {}).get("component")
    series = event.get("series") or {}
    times = (
        event.get("firstTimestamp"),
        event.get("eventTime"),
        event.get("lastTimestamp"),
        series.get("lastObservedTime"),
    )
    known = [at for each in times if (at := unix_seconds(each)) is not None]
    if component != _CONTROLLER or not known:
        return None
    return FailedCreate(event.get("message") or "", min(known), max(known))
