"""The record of which pod uses which GPUs: values and pure functions.

Kubelet no longer lists a pod that was deleted from the API server, for example by force. But
processes of the pod may run until the end of the grace period. So the agent records the GPUs that
it allocated and the GPUs that kubelet listed, by the UID of the pod.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, TypeAlias

from pydantic import BaseModel, TypeAdapter

from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.identify import ContainerAllocation
from gputopo_deviceplugin.kubelet.pod_resources import ListedPod
from gputopo_kube.document import ObjectKey
from gputopo_kube.pods import PodView


class PodState(Enum):
    """The state of a pod at the API server."""

    LIVE = "live"
    ENDED = "ended"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class GpuUser:
    """The container that uses a GPU.

    Attributes:
        uid: UID of the pod; None while the API server has not returned the pod.
        state: LIVE; or ENDED or DELETED, while a process of the pod still runs.
    """

    key: ObjectKey
    container: str
    uid: str | None
    state: PodState = PodState.LIVE


Usage: TypeAlias = Mapping[tuple[str, GpuUuid], GpuUser]
"""The users of GPUs by pod UID and GPU. A live pod and a deleted pod may use the same GPU."""

Lost: TypeAlias = Mapping[tuple[ObjectKey, str], frozenset[GpuUuid]]
"""GPUs that running containers use and kubelet has forgotten, by pod and container."""


def state_of(key: ObjectKey, uid: str, pods: Mapping[ObjectKey, PodView]) -> PodState:
    """Return the state of a pod: DELETED if ``pods`` has no pod with this name and this UID."""
    pod = pods.get(key)
    if pod is None or pod.uid != uid:
        return PodState.DELETED
    return PodState.LIVE if pod.live else PodState.ENDED


def with_allocation(usage: Usage, allocation: ContainerAllocation) -> Usage:
    """Return ``usage`` with the allocation, and without other users of the allocated GPUs."""
    pod = allocation.pod
    others = {key: user for key, user in usage.items() if key[1] not in allocation.gpus}
    user = GpuUser(pod.key, allocation.container, pod.uid)
    return {**others, **{(pod.uid, gpu): user for gpu in allocation.gpus}}


def users_in_list(
    listed: Iterable[ListedPod], lost: Lost, usage: Usage, pods: Mapping[ObjectKey, PodView]
) -> dict[GpuUuid, GpuUser]:
    """Return the user of each GPU in kubelet's list, with the UID of the pod if it is known.

    Kubelet's list has names and no UIDs, and a deleted pod and a new pod may have the same name.
    If ``usage`` has a pod with this name and this GPU, the result has the UID of that pod.
    """
    uids = {(user.key, gpu): uid for (uid, gpu), user in usage.items()}
    known = {key: pod.uid for key, pod in pods.items()}
    return {
        gpu: GpuUser(entry.key, container, uids.get((entry.key, gpu), known.get(entry.key)))
        for entry in listed
        for container, gpus in entry.containers.items()
        for gpu in gpus or lost.get((entry.key, container), gpus)
    }


def with_listed(
    usage: Usage, users: Mapping[GpuUuid, GpuUser], pods: Mapping[ObjectKey, PodView]
) -> Usage:
    """Add ``users``, from kubelet's list, to ``usage``. Skip users whose pod is not in ``pods``."""
    known = {key: pod.uid for key, pod in pods.items()}
    added = {
        (user.uid, gpu): user
        for gpu, user in users.items()
        if user.uid is not None and known.get(user.key) == user.uid
    }
    return {**usage, **added}


def users_of(usage: Usage, states: Mapping[str, PodState]) -> dict[GpuUuid, GpuUser]:
    """Return the user of each GPU. Ignore the pods whose UID is not in ``states``.

    While a process of a deleted pod runs, kubelet may give the GPU of this pod to a new pod. The
    result then has the deleted pod as the user, because its process still uses the GPU.
    """
    found = [
        (gpu, replace(user, state=states[uid]))
        for (uid, gpu), user in usage.items()
        if uid in states
    ]
    return dict(sorted(found, key=lambda each: each[1].state is not PodState.LIVE))


def to_document(usage: Usage) -> list[dict[str, Any]]:
    """Return the usage of GPUs as JSON values, with one JSON object for each pod."""
    pods: dict[str, dict[str, Any]] = {}
    for (uid, gpu), user in usage.items():
        pod = {"uid": uid, "namespace": user.key.namespace, "name": user.key.name, "gpus": {}}
        pods.setdefault(uid, pod)["gpus"][gpu] = user.container
    return [*pods.values()]


def from_document(document: Any) -> Usage:  # noqa: ANN401 - any JSON value
    """Parse the JSON values of ``to_document``, and return the usage of GPUs.

    Raises:
        ValueError: the document is not valid.
    """
    return {
        (pod.uid, GpuUuid(gpu)): GpuUser(ObjectKey(pod.namespace, pod.name), container, pod.uid)
        for pod in _STORED.validate_python(document)
        for gpu, container in pod.gpus.items()
    }


class _StoredPod(BaseModel):
    uid: str
    namespace: str
    name: str
    gpus: dict[str, str]


_STORED: Final = TypeAdapter(Sequence[_StoredPod])
