"""Reduces watched objects to what a decision about sizing running pods depends on."""

from collections.abc import Mapping
from typing import Any, Final

from gputopo.api.names import (
    PROFILE_ANNOTATION,
    PROFILING_ANNOTATION,
    PROFILING_LABEL,
    PROFILING_STATE_ANNOTATION,
    RESOURCES_MAX_ANNOTATION,
    RESOURCES_MODE_ANNOTATION,
)
from gputopo_kube.document import Document, ObjectKey
from gputopo_operator.model.workloads import WatchedPod

# Without the annotation that the operator writes before each resize: the resize follows it.
_ANNOTATIONS: Final = (
    PROFILE_ANNOTATION,
    PROFILING_ANNOTATION,
    PROFILING_STATE_ANNOTATION,
    RESOURCES_MAX_ANNOTATION,
    RESOURCES_MODE_ANNOTATION,
)
_RESIZE_CONDITIONS: Final = frozenset({"PodResizePending", "PodResizeInProgress"})


def parse_watched_pod(raw: Document) -> WatchedPod:
    """Return the node and GPUProfile of a sized pod, and a hash that shows when to decide again."""
    metadata, spec, status = raw["metadata"], raw["spec"], raw.get("status") or {}
    annotations = metadata.get("annotations") or {}
    profile = annotations.get(PROFILE_ANNOTATION)
    containers = status.get("containerStatuses") or ()
    decisive = (
        [annotations.get(name) for name in _ANNOTATIONS],
        (metadata.get("labels") or {}).get(PROFILING_LABEL),
        metadata.get("deletionTimestamp"),
        status.get("phase"),
        [each.get("resources") for each in spec["containers"]],
        [
            (each.get("type"), each.get("status"), each.get("reason"))
            for each in status.get("conditions") or ()
            if each.get("type") in _RESIZE_CONDITIONS
        ],
        [
            (each.get("resources"), each.get("allocatedResources"), each.get("lastState"))
            for each in containers
        ],
    )
    return WatchedPod(
        uid=metadata["uid"],
        node=spec.get("nodeName") or "",
        profile=ObjectKey(metadata["namespace"], profile) if profile else None,
        fingerprint=hash(repr(decisive)),
    )


def profile_fingerprint(spec: Mapping[str, Any], status: Mapping[str, Any]) -> int:
    """Return a hash of the data set and of the CPU limits with which the workload was measured.

    The hash does not include the rates, because each sample changes them a little. The operator
    uses new rates in the next round.
    """
    facts = (status.get("facts") or {}).get("cpus") or ()
    measured = [
        (each.get("gpus"), [point.get("milliCPU") for point in each.get("points") or ()])
        for each in facts
    ]
    return hash(repr((spec.get("dataset"), spec.get("memoryFloor"), measured)))
