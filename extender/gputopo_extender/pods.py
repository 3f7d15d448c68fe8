"""A pod, trimmed to what the extender needs; pods that ask for none of our GPUs have no record.

A pod object of the API is thousands of bytes, and the extender sees all of them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from gputopo.api.names import GROUP
from gputopo.topology.model import MAX_INDEX
from gputopo_extender.podstatus import PodStatus

_COUNT = re.compile(r"\d{1,4}")
_WHOLE_NODE = MAX_INDEX + 1


class PodError(ValueError):
    """A pod object without the fields that every pod has."""


@dataclass(frozen=True, slots=True)
class ContainerAsk:
    """The GPUs that one container asks for and keeps while the pod lives, at least one."""

    name: str
    gpus: int


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A pod that asks for our GPUs.

    Attributes:
        version: its resource version, a number that every change makes greater.
        priority: the lower, the sooner it is ended for another pod.
        node: where it is bound, None before.
        live: False once its phase is Succeeded or Failed.
        asks: application containers that ask for GPUs, in the order of the spec, and then
            sidecars. Ordinary init containers borrow from them.
        most_gpus: the most GPUs it can hold at one time, init containers included.
        refusal: why it cannot be placed, None where it can.
        annotations: its ``gputopo.io/*`` annotations.
        prefers: whether it would rather have some nodes than others, and may have all.
        running: whether its phase is Running.
        started: whether kubelet has reported that a container was started.
        stopped: whether kubelet has reported that no container of it runs any more.
        rejected: reason and message of a kubelet that did not admit it, None where it did.
        deleting: whether it has a ``deletionTimestamp``.
        grouped: whether it belongs to a scheduling group.
    """

    uid: str
    namespace: str
    name: str
    version: str
    priority: int
    node: str | None
    live: bool
    asks: tuple[ContainerAsk, ...]
    most_gpus: int
    refusal: str | None
    annotations: Mapping[str, str]
    prefers: bool = False
    running: bool = False
    started: bool = False
    stopped: bool = False
    rejected: str | None = None
    deleting: bool = False
    grouped: bool = False

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


def newer(pod: PodRecord, other: PodRecord | None) -> PodRecord:
    """Return the one of two records of a pod that was changed last."""
    return pod if other is None or int(other.version) < int(pod.version) else other


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class _Resources(_Part):
    requests: dict[str, Any] | None = None
    limits: dict[str, Any] | None = None


class _Container(_Part):
    name: str
    resources: _Resources | None = None
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


class _Spec(_Part):
    node_name: str | None = None
    priority: int | None = None
    affinity: dict[str, _Affinity | None] | None = None
    topology_spread_constraints: list[Any] | None = None
    resource_claims: list[Any] | None = None
    scheduling_group: dict[str, Any] | None = None
    containers: list[_Container]
    init_containers: list[_Container] | None = None


class _Pod(_Part):
    metadata: _Metadata
    spec: _Spec
    status: PodStatus | None = None


_Asking = tuple[_Container, int | None]


def record_of(document: Mapping[str, Any], resource: str) -> PodRecord | None:
    """Return the record of a pod object, None where it asks for none of ``resource``.

    Raises:
        PodError: where the object is no pod; the message names the field.
    """
    try:
        pod = _Pod.model_validate(document)
    except ValidationError as error:
        detail = error.errors()[0]
        field = ".".join(str(part) for part in detail["loc"])
        raise PodError(f"pod {field}: {detail['msg']}") from None
    apps = _asked(pod.spec.containers, resource)
    inits = _asked(pod.spec.init_containers or [], resource)
    if not apps and not inits:
        return None
    return _record(pod, apps, inits, resource)


def _record(
    pod: _Pod,
    apps: list[_Asking],
    inits: list[_Asking],
    resource: str,
) -> PodRecord:
    annotations = pod.metadata.annotations or {}
    status = pod.status or PodStatus()
    return PodRecord(
        uid=pod.metadata.uid,
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        version=pod.metadata.resource_version,
        priority=pod.spec.priority or 0,
        node=pod.spec.node_name or None,
        live=not status.ended,
        asks=tuple(
            ContainerAsk(keeper.name, count)
            for keeper, count in (*apps, *filter(_is_sidecar, inits))
            if count is not None
        ),
        most_gpus=_most(apps, inits),
        refusal=_refusal(apps, inits, resource),
        annotations={
            key: value for key, value in annotations.items() if key.startswith(f"{GROUP}/")
        },
        prefers=_prefers(pod.spec),
        running=status.phase == "Running",
        started=status.started,
        stopped=status.stopped(len(pod.spec.containers)),
        rejected=status.rejected,
        deleting=pod.metadata.deletion_timestamp is not None,
        grouped=pod.spec.scheduling_group is not None,
    )


def _prefers(spec: _Spec) -> bool:
    affinities = (spec.affinity or {}).values()
    # A claim may list devices in an order of preference, and each node has others.
    return bool(spec.topology_spread_constraints or spec.resource_claims) or any(
        affinity and affinity.preferred_during_scheduling_ignored_during_execution
        for affinity in affinities
    )


def _asked(containers: list[_Container], resource: str) -> list[_Asking]:
    """Return the containers that ask, with their count; None for one that cannot be read."""
    found: list[_Asking] = []
    for container in containers:
        resources = container.resources or _Resources()
        # The API server copies a limit to the request where only the limit was given.
        value = (resources.requests or {}).get(resource, (resources.limits or {}).get(resource))
        if value is None:
            continue
        count = int(str(value)) if _COUNT.fullmatch(str(value)) else None
        if count != 0:
            found.append((container, count))
    return found


def _is_sidecar(asking: _Asking) -> bool:
    return asking[0].restart_policy == "Always"


def _most(apps: list[_Asking], inits: list[_Asking]) -> int:
    counts = [count for _, count in (*apps, *inits)]
    if None in counts:
        return _WHOLE_NODE
    sidecars = sum(asking[1] or 0 for asking in inits if _is_sidecar(asking))
    largest_init = max((asking[1] or 0 for asking in inits if not _is_sidecar(asking)), default=0)
    return sidecars + max(sum(count or 0 for _, count in apps), largest_init)


def _refusal(apps: list[_Asking], inits: list[_Asking], resource: str) -> str | None:
    for container, count in (*apps, *inits):
        if count is None:
            return f"{resource} in container {container.name!r}: not a whole number"
    for position, asking in enumerate(inits):
        keepers = [*filter(_is_sidecar, inits[position:]), *apps]
        borrower, count = asking
        # Kubelet hands the GPUs on to the next that keeps its own, and chooses at random which
        # to leave out where there are more of them.
        most = (keepers[0][1] or 0) if keepers else 0
        if (count or 0) > most:
            after = f"{keepers[0][0].name!r} keeps {most}" if keepers else "none keeps any"
            return (
                f"{resource} in init container {borrower.name!r}: {count}, and of the containers "
                f"after it {after}: ask for no more than that"
            )
    return None
