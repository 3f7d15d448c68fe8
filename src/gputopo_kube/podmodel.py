"""Parses and validates the fields of a pod object that gputopo uses.

The module ``pods`` converts these fields to a smaller ``PodView``, which most callers use.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from gputopo.errors import InvalidInputError
from gputopo.runtime.messages import first_error
from gputopo_kube.podstatus import (
    ContainerResources,
    ContainerStatus,
    PodCondition,
    PodPart,
    PodStatus,
    UnappliedResize,
)


class PodError(InvalidInputError):
    """The object is not a valid pod; the message names the missing or invalid field."""


class Container(PodPart):
    """A container or init container."""

    name: str
    resources: ContainerResources | None = None
    restart_policy: str | None = None
    resize_policy: list[dict[str, Any]] | None = None

    @property
    def is_sidecar(self) -> bool:
        """Whether this init container runs until the pod ends; no meaning for other containers."""
        return self.restart_policy == "Always"


class _Metadata(PodPart):
    uid: Annotated[str, Field(min_length=1)]
    name: Annotated[str, Field(min_length=1)]
    namespace: Annotated[str, Field(min_length=1)]
    resource_version: str | None = None
    generation: int | None = None
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: list[dict[str, Any]] | None = None

    @property
    def controller_uid(self) -> str:
        """UID of the pod's controller, for example a Job; empty if the pod has no controller."""
        owners = self.owner_references or ()
        return next((str(owner["uid"]) for owner in owners if owner.get("controller")), "")


class _Affinity(PodPart):
    preferred_during_scheduling_ignored_during_execution: list[Any] | None = None


class PodSpec(PodPart):
    """``spec`` of a pod."""

    node_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    affinity: dict[str, _Affinity | None] | None = None
    topology_spread_constraints: list[Any] | None = None
    resource_claims: list[Any] | None = None
    scheduling_gates: list[Any] | None = None
    scheduling_group: dict[str, Any] | None = None
    overhead: dict[str, Any] | None = None
    containers: list[Container]
    init_containers: list[Container] | None = None
    pod_resources: Annotated[ContainerResources | None, Field(alias="resources")] = None

    @property
    def prefers_nodes(self) -> bool:
        """Whether the pod prefers some nodes, by affinity, topology spread or a resource claim."""
        affinities = (self.affinity or {}).values()
        # A resource claim may list devices in order of preference, and nodes differ in devices.
        return bool(self.topology_spread_constraints or self.resource_claims) or any(
            affinity and affinity.preferred_during_scheduling_ignored_during_execution
            for affinity in affinities
        )

    def resources(self) -> set[str]:
        """Return the names of the resources that the containers request."""
        requested = [
            each.resources or ContainerResources()
            for each in (*self.containers, *(self.init_containers or ()))
        ]
        return {
            name for each in requested for name in (*(each.requests or ()), *(each.limits or ()))
        }


def _absent_as_empty(value: object) -> object:
    return {} if value is None else value


class PodObject(PodPart):
    """A pod."""

    metadata: _Metadata
    spec: PodSpec
    status: Annotated[PodStatus, BeforeValidator(_absent_as_empty)] = PodStatus()

    @property
    def unapplied_resize(self) -> UnappliedResize | None:
        """Why kubelet has not applied the newest resize; None if it reports no reason."""
        return self.status.unapplied_resize(self.metadata.generation)


def parse_pod_object(document: Mapping[str, Any]) -> PodObject:
    """Parse the JSON of a pod.

    Raises:
        PodError: if a field is missing or has a wrong type; the message names the field.
    """
    try:
        return PodObject.model_validate(document)
    except ValidationError as error:
        raise PodError(f"pod {first_error(error)}") from None


def known_parts(document: Mapping[str, Any]) -> PodObject:
    """Return a parsed pod, or of an object that is not a valid pod its ``valid_parts``."""
    try:
        return parse_pod_object(document)
    except PodError:
        return valid_parts(document)


def valid_parts(document: Mapping[str, Any]) -> PodObject:
    """Return the identity, node, phase, conditions and amounts of an object that is no valid pod.

    A pod of a newer Kubernetes may have a field in an unknown format. It still uses its CPUs and
    memory. Containers that cannot be parsed are left out. Missing names are ``unknown``.
    """
    metadata, spec, status = (
        _mapping(document.get(each)) for each in ("metadata", "spec", "status")
    )
    of_containers = ("containers", "initContainers")
    of_statuses = ("containerStatuses", "initContainerStatuses")
    identity = ("uid", "name", "namespace")
    return PodObject.model_validate(
        {
            "metadata": {name: str(metadata.get(name) or "unknown") for name in identity}
            | {"resourceVersion": str(metadata.get("resourceVersion") or "")},
            "spec": {name: _valid(Container, spec.get(name)) for name in of_containers}
            | {"nodeName": str(spec.get("nodeName") or "")}
            | {"overhead": _mapping(spec.get("overhead"))}
            | {"resources": next(iter(_valid(ContainerResources, [spec.get("resources")])), None)},
            "status": {name: _valid(ContainerStatus, status.get(name)) for name in of_statuses}
            | {"phase": str(status.get("phase") or "")}
            | {"conditions": _valid(PodCondition, status.get("conditions"))},
        }
    )


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _valid(kind: type[PodPart], items: object) -> list[object]:
    """Return the items of a list that can be parsed as ``kind``."""
    found = []
    for item in items if isinstance(items, list) else ():
        with suppress(ValidationError):
            kind.model_validate(item)
            found.append(item)
    return found
