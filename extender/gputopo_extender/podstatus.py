"""What the status of a pod says about its containers: started, stopped, or rejected by kubelet."""

from collections.abc import Set as AbstractSet
from typing import Any, Final

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

ENDED_PHASES: Final = frozenset({"Succeeded", "Failed"})
ADMISSION_ERROR: Final = "UnexpectedAdmissionError"
"""The reason of kubelet where the device manager or the device plugin rejected the pod."""

_LONGEST_REJECTION = 120


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class _ContainerStatus(_Part):
    state: dict[str, Any] | None = None
    last_state: dict[str, Any] | None = None

    @property
    def terminated(self) -> bool:
        return bool(self.state and self.state.get("terminated"))

    @property
    def running(self) -> bool:
        return bool(self.state and self.state.get("running") is not None)

    @property
    def started(self) -> bool:
        return self.running or self.terminated or bool(self.last_state)

    @property
    def failed(self) -> bool:
        terminated = (self.state or {}).get("terminated")
        return isinstance(terminated, dict) and terminated.get("exitCode") != 0


class _Condition(_Part):
    type: str | None = None
    reason: str | None = None


class PodStatus(_Part):
    """``status`` of a pod, as far as it matters here."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    conditions: list[_Condition] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None
    ephemeral_container_statuses: list[_ContainerStatus] | None = None

    @property
    def ended(self) -> bool:
        """Whether the phase is Succeeded or Failed, by any client."""
        return self.phase in ENDED_PHASES

    @property
    def started(self) -> bool:
        """Whether kubelet has reported that a container was started."""
        return any(each.started for each in self._containers())

    @property
    def rejected(self) -> str | None:
        """Return reason and message of a kubelet that did not admit the pod, None otherwise.

        Only a rejection leaves a failed pod without any container status. After a kubelet restart
        it may concern a pod whose containers still run.
        """
        if self.phase != "Failed" or not self.reason or self._containers() or self._is_collected():
            return None
        text = " ".join(f"{self.reason}: {self.message or ''}".split())
        return text if len(text) <= _LONGEST_REJECTION else text[: _LONGEST_REJECTION - 3] + "..."

    def is_rejected_for(self, resource: str, asked: AbstractSet[str]) -> bool:
        """Return whether kubelet did not admit the pod because of ``resource``.

        kubelet names the resource in most messages; the error of a device plugin does not. So a
        message counts unless it names another extended resource of those that the pod ``asked``.
        """
        if self.rejected is None or self.reason != ADMISSION_ERROR:
            return False
        message = self.message or ""
        others = {name for name in asked if "/" in name and name != resource}
        return resource in message or not any(name in message for name in others)

    def stopped(self, containers: int) -> bool:
        """Return whether kubelet has reported that none of ``containers`` and the others runs.

        A phase that is not terminal proves nothing, whatever the containers' states are: kubelet
        may restart a terminated container at any time.
        """
        if not self.ended or self._is_collected():
            return False
        if self.rejected is not None:
            return True
        known = self._containers()
        if len(self.container_statuses or ()) < containers:
            return False
        if any(each.failed for each in self.init_container_statuses or ()):
            # The containers after it were never started: kubelet reports them as waiting for ever.
            return not any(each.running for each in known)
        return all(each.terminated for each in known)

    def _containers(self) -> list[_ContainerStatus]:
        return [
            *(self.container_statuses or ()),
            *(self.init_container_statuses or ()),
            *(self.ephemeral_container_statuses or ()),
        ]

    def _is_collected(self) -> bool:
        """Return whether PodGC has set the phase: it does not know what runs on the node."""
        return any(
            (each.type, each.reason) == ("DisruptionTarget", "DeletionByPodGC")
            for each in self.conditions or ()
        )
