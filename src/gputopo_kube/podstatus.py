"""Parses the status of a pod: which containers have started or ended, and kubelet's rejection."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from gputopo.runtime.messages import shortened

ENDED_PHASES: Final = frozenset({"Succeeded", "Failed"})
ADMISSION_ERROR: Final = "UnexpectedAdmissionError"
"""kubelet's reason if its device manager or the device plugin rejected the pod."""

_LONGEST_REJECTION: Final = 240
_DESCRIPTION: Final = " desc = "
_NOT_OF_NODE: Final = "code = InvalidArgument"
"""The code of the node agent for a rejection that says nothing about other pods of the node."""

_UNEXPECTED: Final = ", which is unexpected"

ResizeReason: TypeAlias = Literal["Deferred", "Infeasible", "Error"]
_RESIZE_REASONS: Final[Mapping[tuple[str | None, str | None], ResizeReason]] = {
    ("PodResizePending", "Deferred"): "Deferred",
    ("PodResizePending", "Infeasible"): "Infeasible",
    ("PodResizeInProgress", "Error"): "Error",
}


class UnappliedResize(NamedTuple):
    """Why kubelet has not applied the newest resize of a pod, and kubelet's message."""

    reason: ResizeReason
    message: str


class PodPart(BaseModel):
    """Base class of the parts of a pod. JSON keys are in camelCase; unknown keys are ignored."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class ContainerResources(PodPart):
    """``resources`` of a container."""

    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None

    def quantity(self, resource: str) -> object:
        """Return the request for ``resource``, or else its limit, or None if both are missing."""
        # The API server copies a limit to the request if only the limit is set.
        requested = (self.requests or {}).get(resource)
        return (self.limits or {}).get(resource) if requested is None else requested


class ContainerStatus(PodPart):
    """Status of one container.

    Attributes:
        state: has one key: running, waiting or terminated.
        image_id: image with its digest, for example ``example.org/train@sha256:1a2b``.
        resources: requests and limits that kubelet has applied; None before Kubernetes 1.33.
        allocated_resources: requests for which kubelet has reserved capacity of the node.
    """

    name: str = ""
    state: dict[str, Any] | None = None
    last_state: dict[str, Any] | None = None
    image_id: Annotated[str | None, Field(alias="imageID")] = None
    resources: ContainerResources | None = None
    allocated_resources: dict[str, Any] | None = None

    @property
    def waiting(self) -> Mapping[str, Any] | None:
        """Reason and message of a waiting container; None if the container does not wait."""
        return self._detail("waiting")

    @property
    def terminated(self) -> Mapping[str, Any] | None:
        """Exit code, reason and message of an ended container; None if it has not ended."""
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


class PodCondition(PodPart):
    """One entry of ``status.conditions``."""

    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None
    observed_generation: int | None = None


class PodStatus(PodPart):
    """``status`` of a pod."""

    phase: str | None = None
    qos_class: str | None = None
    reason: str | None = None
    message: str | None = None
    start_time: str | None = None
    pod_ip: Annotated[str | None, Field(alias="podIP")] = None
    conditions: list[PodCondition] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    container_statuses: list[ContainerStatus] | None = None
    ephemeral_container_statuses: list[ContainerStatus] | None = None

    @property
    def containers(self) -> list[ContainerStatus]:
        """Statuses of the init, application and ephemeral containers."""
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
        """Why kubelet rejected the pod: reason and message; None if kubelet did not reject it.

        Of an error of the device plugin, the message is that of the plugin: kubelet puts about 130
        characters before it, for example ``Allocate failed due to ... rpc error: code = Unknown
        desc = GPU 3 is unhealthy, which is unexpected``.

        A failed pod without any container status was rejected. A restarted kubelet may also reject
        a pod whose containers still run; kubelet then removes the container statuses.
        """
        if self.phase != "Failed" or not self.reason or self.containers or self._is_collected():
            return None
        message = self.message or ""
        if _DESCRIPTION in message:
            message = message.partition(_DESCRIPTION)[2].removesuffix(_UNEXPECTED)
        text = " ".join(f"{self.reason}: {message}".split())
        return shortened(text, _LONGEST_REJECTION)

    def unapplied_resize(self, generation: int | None) -> UnappliedResize | None:
        """Return why kubelet has not applied the resize in the spec; None if it reports no reason.

        Args:
            generation: ``metadata.generation`` of the pod. A condition with another
                ``observedGeneration`` is about an earlier resize. Kubelets before Kubernetes 1.34
                do not set this field.
        """
        for each in self.conditions or ():
            reason = _RESIZE_REASONS.get((each.type, each.reason))
            current = each.observed_generation in {None, generation}
            if reason is not None and each.status == "True" and current:
                return UnappliedResize(reason, each.message or "")
        return None

    @property
    def unschedulable(self) -> PodCondition | None:
        """The condition PodScheduled, if the scheduler has found no node for the pod."""
        found = self.condition("PodScheduled")
        return found if found is not None and found.status == "False" else None

    def condition(self, type_: str) -> PodCondition | None:
        """Return the condition of this type, or None if the pod does not have it."""
        return next((each for each in self.conditions or () if each.type == type_), None)

    def is_rejected_for(self, resource: str, requested: AbstractSet[str]) -> bool:
        """Return whether kubelet rejected the pod because of ``resource``.

        ``requested`` are the resources that the pod requests. The result is true if kubelet's
        message names ``resource``. It is also true if the message names no requested resource, for
        example because the message is an error of the device plugin. It is false if the node agent
        rejected the pod for what the pod declares, or for a fault of one GPU.
        """
        if self.rejection is None or self.reason != ADMISSION_ERROR:
            return False
        message = self.message or ""
        if message.partition(_DESCRIPTION)[0].endswith(_NOT_OF_NODE):
            return False
        others = {name for name in requested if "/" in name and name != resource}
        return resource in message or not any(name in message for name in others)

    def has_stopped(self, containers: int) -> bool:
        """Return whether kubelet has reported that no container runs any more.

        The result is false before the phase is Succeeded or Failed, because until then kubelet may
        restart a terminated container.

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
            # kubelet never starts the containers after a failed init container, and reports them as
            # waiting.
            return not any(each.is_running for each in self.containers)
        return all(each.terminated is not None for each in self.containers)

    def _is_collected(self) -> bool:
        """Return whether PodGC set the phase. PodGC does not know whether containers still run."""
        return any(
            (each.type, each.reason) == ("DisruptionTarget", "DeletionByPodGC")
            for each in self.conditions or ()
        )
