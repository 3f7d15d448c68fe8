"""A pod, trimmed to which GPUs it was given and whether it may have them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gputopo.api.annotations import AnnotationError, parse_gpus
from gputopo.api.names import GPUS_ANNOTATION
from gputopo_cli.kube import Document


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that a node of the cluster may have.

    Attributes:
        node: where it is bound; empty before.
        live: False once it has ended.
        running: whether its containers run.
        since: RFC 3339 time at which its node took it, or at which it was bound; None before.
        gpus: UUIDs by container in rank order, as the scheduler chose them for this very pod.
        fault: why its annotation is worth nothing, None where it is good or absent.
    """

    namespace: str
    name: str
    uid: str
    node: str
    live: bool
    running: bool
    since: str | None
    gpus: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fault: str | None = None


def pod_of(document: Document) -> Pod:
    """Return what is needed of a pod as the API server writes it."""
    metadata, status = document["metadata"], document.get("status") or {}
    phase = status.get("phase")
    node = document["spec"].get("nodeName") or ""
    gpus, fault = _given(metadata, node)
    return Pod(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        node=node,
        live=phase not in {"Succeeded", "Failed"},
        running=phase == "Running",
        since=status.get("startTime") or _bound_at(status),
        gpus=gpus,
        fault=fault,
    )


def _given(metadata: Document, node: str) -> tuple[Mapping[str, tuple[str, ...]], str | None]:
    try:
        said = parse_gpus(metadata.get("annotations") or {})
    except AnnotationError as error:
        return {}, str(error)
    if said is None:
        return {}, None
    for name, value, own in (("uid", said.uid, metadata["uid"]), ("node", said.node, node)):
        if value != own:
            return {}, f"{GPUS_ANNOTATION}: {name}: {value} is not the pod's own, {own or 'none'}"
    return {name: tuple(uuids) for name, uuids in said.containers.items()}, None


def _bound_at(status: Document) -> str | None:
    return next(
        (
            condition.get("lastTransitionTime")
            for condition in status.get("conditions") or ()
            if condition["type"] == "PodScheduled" and condition["status"] == "True"
        ),
        None,
    )
