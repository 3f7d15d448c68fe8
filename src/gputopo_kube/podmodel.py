"""The fields of a pod object that gputopo reads, and what its status says about containers.

Only ``pods`` and callers that need the status beyond a ``PodView`` use it.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from gputopo.errors import InvalidInputError
from gputopo.runtime.messages import first_error

ENDED_PHASES: Final = frozenset({"Succeeded", "Failed"})
ADMISSION_ERROR: Final = "UnexpectedAdmissionError"
"""kubelet's reason where the device manager or the device plugin rejected the pod."""

_LONGEST_REJECTION = 120


class PodError(InvalidInputError):
    """An object that lacks a field which every pod has; the message names the field."""


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class Resources(_Part):
    """``resources`` of a container."""

    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None

    def quantity(self, resource: str) -> object:
        """Return the requested quantity, or the limit where only a limit is set; else None."""
        # The API server copies a limit to the request where only the limit was given.
        requested = (self.requests or {}).get(resource)
        return (self.limits or {}).get(resource) if requested is None else requested


class Container(_Part):
    """A container or init container."""

    name: str
    resources: Resources | None = None
    restart_policy: str | None = None


class _Metadata(_Part):
    uid: Annotated[str, Field(min_length=1)]
    name: Annotated[str, Field(min_length=1)]
    namespace: Annotated[str, Field(min_length=1)]
    resource_version: str | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: list[dict[str, Any]] | None = None

    @property
    def controller_uid(self) -> str:
        """UID of the object that controls the pod, empty without one."""
        owners = self.owner_references or ()
        return next((str(owner["uid"]) for owner in owners if owner.get("controller")), "")


class _Affinity(_Part):
    preferred_during_scheduling_ignored_during_execution: list[Any] | None = None


class PodSpec(_Part):
    """``spec`` of a pod."""

    node_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    affinity: dict[str, _Affinity | None] | None = None
    topology_spread_constraints: list[Any] | None = None
    resource_claims: list[Any] | None = None
    scheduling_group: dict[str, Any] | None = None
    containers: list[Container]
    init_containers: list[Container] | None = None

    @property
    def prefers_nodes(self) -> bool:
        """Whether the pod prefers some of the nodes that it may have."""
        affinities = (self.affinity or {}).values()
        # A claim may list devices in an order of preference, and each node has others.
        return bool(self.topology_spread_constraints or self.resource_claims) or any(
            affinity and affinity.preferred_during_scheduling_ignored_during_execution
            for affinity in affinities
        )

    def resources(self) -> set[str]:
        """Return the names of the resources that the containers request."""
        requested = [
            each.resources or Resources()
            for each in (*self.containers, *(self.init_containers or ()))
        ]
        return {
            name for each in requested for name in (*(each.requests or ()), *(each.limits or ()))
        }


class ContainerStatus(_Part):
    """Status of one container: ``state`` has one key, running, waiting or terminated."""

    name: str = ""
    state: dict[str, Any] | None = None
    last_state: dict[str, Any] | None = None

    @property
    def waiting(self) -> Mapping[str, Any] | None:
        """Reason and message of a container that waits, None otherwise."""
        return self._detail("waiting")

    @property
    def terminated(self) -> Mapping[str, Any] | None:
        """Exit code, reason and message of a container that has ended, None otherwise."""
        return self._detail("terminated") or None

    @property
    def is_running(self) -> bool:
        """Whether the container runs now."""
        return self._detail("running") is not None

    @property
    def was_started(self) -> bool:
        """Whether the container was started at least once."""
        return self.is_running or self.terminated is not None or bool(self.last_state)

    @property
    def has_failed(self) -> bool:
        """Whether the container has ended with an exit code other than 0."""
        return self.terminated is not None and self.terminated.get("exitCode") != 0

    def _detail(self, state: str) -> Mapping[str, Any] | None:
        detail = (self.state or {}).get(state)
        return detail if isinstance(detail, dict) else None


class PodCondition(_Part):
    """One entry of ``status.conditions``."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


class PodStatus(_Part):
    """``status`` of a pod."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    start_time: str | None = None
    conditions: list[PodCondition] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    container_statuses: list[ContainerStatus] | None = None
    ephemeral_container_statuses: list[ContainerStatus] | None = None

    @property
    def containers(self) -> list[ContainerStatus]:
        """Statuses of all containers: init, application, ephemeral ones."""
        return [
            *(self.init_container_statuses or ()),
            *(self.container_statuses or ()),
            *(self.ephemeral_container_statuses or ()),
        ]

    @property
    def has_started(self) -> bool:
        """Whether kubelet has reported that a container was started."""
        return any(each.was_started for each in self.containers)

    @property
    def rejection(self) -> str | None:
        """Reason and message of a kubelet that did not admit the pod, None otherwise.

        Only a rejection leaves a failed pod without any container status. After a kubelet restart
        it may concern a pod whose containers still run.
        """
        if self.phase != "Failed" or not self.reason or self.containers or self._is_collected():
            return None
        text = " ".join(f"{self.reason}: {self.message or ''}".split())
        return text if len(text) <= _LONGEST_REJECTION else text[: _LONGEST_REJECTION - 3] + "..."

    def condition(self, type_: str) -> PodCondition | None:
        """Return the condition of this type, None where there is none."""
        return next((each for each in self.conditions or () if each.type == type_), None)

    def is_rejected_for(self, resource: str, requested: AbstractSet[str]) -> bool:
        """Return whether kubelet did not admit the pod because of ``resource``.

        kubelet names the resource in most messages; the error of a device plugin does not. So a
        message counts unless it names another extended resource that the pod ``requested``.
        """
        if self.rejection is None or self.reason != ADMISSION_ERROR:
            return False
        message = self.message or ""
        others = {name for name in requested if "/" in name and name != resource}
        return resource in message or not any(name in message for name in others)

    def has_stopped(self, containers: int) -> bool:
        """Return whether kubelet has reported that no container runs any more.

        A phase that is not terminal proves nothing, whatever the containers' states are: kubelet
        may restart a terminated container at any time.

        Args:
            containers: number of application containers in the spec.
        """
        if self.phase not in ENDED_PHASES or self._is_collected():
            return False
        if self.rejection is not None:
            return True
        if len(self.container_statuses or ()) < containers:
            return False
        if any(each.has_failed for each in self.init_container_statuses or ()):
            # The containers after it were never started: kubelet reports them as waiting for ever.
            return not any(each.is_running for each in self.containers)
        return all(each.terminated is not None for each in self.containers)

    def _is_collected(self) -> bool:
        """Return whether PodGC has set the phase: it does not know what runs on the node."""
        return any(
            (each.type, each.reason) == ("DisruptionTarget", "DeletionByPodGC")
            for each in self.conditions or ()
        )


def _absent_as_empty(value: object) -> object:
    return {} if value is None else value


class PodObject(_Part):
    """A pod."""

    metadata: _Metadata
    spec: PodSpec
    status: Annotated[PodStatus, BeforeValidator(_absent_as_empty)] = PodStatus()


def parse_pod_object(document: Mapping[str, Any]) -> PodObject:
    """Parse the JSON of a pod.

    Raises:
        PodError: where a field is missing or has a wrong type; the message names the field.
    """
    try:
        return PodObject.model_validate(document)
    except ValidationError as error:
        raise PodError(f"pod {first_error(error)}") from None
