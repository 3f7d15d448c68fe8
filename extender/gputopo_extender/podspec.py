"""The parts of a pod object that the extender reads."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from gputopo_extender.podstatus import PodStatus


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class Resources(_Part):
    """``resources`` of a container."""

    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None


class Container(_Part):
    """A container or init container."""

    name: str
    resources: Resources | None = None
    restart_policy: str | None = None


class _Metadata(_Part):
    uid: Annotated[str, Field(min_length=1)]
    name: Annotated[str, Field(min_length=1)]
    namespace: Annotated[str, Field(min_length=1)]
    resource_version: Annotated[str, Field(pattern=r"^[0-9]{1,19}$")]
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


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
    def prefers(self) -> bool:
        """Whether the pod would rather have some nodes than others."""
        affinities = (self.affinity or {}).values()
        # A claim may list devices in an order of preference, and each node has others.
        return bool(self.topology_spread_constraints or self.resource_claims) or any(
            affinity and affinity.preferred_during_scheduling_ignored_during_execution
            for affinity in affinities
        )

    def resources(self) -> set[str]:
        """Return the names of the resources that the containers ask for."""
        asked = [
            each.resources or Resources()
            for each in (*self.containers, *(self.init_containers or ()))
        ]
        return {name for each in asked for name in (*(each.requests or ()), *(each.limits or ()))}


class PodObject(_Part):
    """A pod."""

    metadata: _Metadata
    spec: PodSpec
    status: PodStatus | None = None
