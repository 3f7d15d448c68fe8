"""A pod, trimmed to what the extender needs; pods that ask for none of our GPUs have no record.

A pod object of the API is thousands of bytes, and the extender sees all of them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from gputopo.api.names import GROUP
from gputopo.errors import InvalidInputError
from gputopo.runtime.messages import first_error
from gputopo.topology.model import MAX_INDEX
from gputopo_extender.podspec import Container, PodObject, Resources
from gputopo_extender.podstatus import PodStatus

_COUNT = re.compile(r"\d{1,4}")
_WHOLE_NODE = MAX_INDEX + 1


class PodError(InvalidInputError):
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
        preempts: whether other pods may be preempted for it.
        running: whether its phase is Running.
        started: whether kubelet has reported that a container was started.
        stopped: whether kubelet has reported that no container of it runs any more.
        rejected: reason and message of a kubelet that did not admit it, None where it did.
        rejected_for_gpus: whether kubelet did not admit it because of our resource, as far as its
            message shows.
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
    preempts: bool = True
    running: bool = False
    started: bool = False
    stopped: bool = False
    rejected: str | None = None
    rejected_for_gpus: bool = False
    deleting: bool = False
    grouped: bool = False

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


def newer(pod: PodRecord, other: PodRecord | None) -> PodRecord:
    """Return the one of two records of a pod that was changed last."""
    return pod if other is None or int(other.version) < int(pod.version) else other


_Asking = tuple[Container, int | None]


def record_of(document: Mapping[str, Any], resource: str) -> PodRecord | None:
    """Return the record of a pod object, None where it asks for none of ``resource``.

    Raises:
        PodError: where the object is no pod; the message names the field.
    """
    try:
        pod = PodObject.model_validate(document)
    except ValidationError as error:
        raise PodError(f"pod {first_error(error)}") from None
    apps = _asked(pod.spec.containers, resource)
    inits = _asked(pod.spec.init_containers or [], resource)
    if not apps and not inits:
        return None
    return _record(pod, apps, inits, resource)


def _record(
    pod: PodObject,
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
        prefers=pod.spec.prefers,
        preempts=pod.spec.preemption_policy != "Never",
        running=status.phase == "Running",
        started=status.started,
        stopped=status.stopped(len(pod.spec.containers)),
        rejected=status.rejected,
        rejected_for_gpus=status.is_rejected_for(resource, pod.spec.resources()),
        deleting=pod.metadata.deletion_timestamp is not None,
        grouped=pod.spec.scheduling_group is not None,
    )


def _asked(containers: list[Container], resource: str) -> list[_Asking]:
    """Return the containers that ask, with their count; None for one that cannot be read."""
    found: list[_Asking] = []
    for container in containers:
        resources = container.resources or Resources()
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
