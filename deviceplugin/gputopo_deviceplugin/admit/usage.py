"""Which pod uses which GPUs until its last process has ended. Pure.

Kubelet stops listing a pod when it is deleted from the API, also by force, while its processes
may run for as long as they are allowed to ignore SIGTERM. So the agent remembers by UID what it
granted and what kubelet listed.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter

from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.identify import ContainerAllocation
from gputopo_deviceplugin.admit.verify import GpuUser
from gputopo_deviceplugin.kubelet.pod_resources import ListedPod
from gputopo_kube.pods import PodKey, PodView


class PodState(Enum):
    """What the API server says of a pod; the value is how a user of GPUs is ``gone``."""

    LIVE = None
    ENDED = "ended"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class PodUsage:
    """The GPUs of a pod, each with the container that it was given to last."""

    uid: str
    key: PodKey
    gpus: Mapping[GpuUuid, str]

    def holders(self, state: PodState) -> Iterator[tuple[GpuUuid, GpuUser]]:
        """Yield the pod as the user of each of its GPUs."""
        for gpu, container in self.gpus.items():
            yield gpu, GpuUser(self.key, container, self.uid, state.value)


Usage = Mapping[str, PodUsage]
"""The pods that use GPUs, by UID."""


def state_of(key: PodKey, uid: str, pods: Mapping[PodKey, PodView]) -> PodState:
    """Return the state of the pod with this UID; a pod of the same name may have followed it."""
    pod = pods.get(key)
    if pod is None or pod.uid != uid:
        return PodState.DELETED
    return PodState.LIVE if pod.live else PodState.ENDED


def granted(usage: Usage, found: ContainerAllocation) -> Usage:
    """Return the usage after a grant: no other pod has these GPUs any longer."""
    taken = set(found.gpus)
    others = {
        uid: PodUsage(uid, pod.key, _without(pod.gpus, taken))
        for uid, pod in usage.items()
        if uid != found.pod.uid and pod.gpus.keys() - taken
    }
    own = dict.fromkeys(found.gpus, found.container)
    return {**others, **_with(usage, found.pod.uid, found.pod.key, own)}


def listed_holders(
    listed: Iterable[ListedPod], usage: Usage, pods: Mapping[PodKey, PodView]
) -> dict[GpuUuid, GpuUser]:
    """Return the user of each GPU that kubelet lists, with the UID where it is known.

    Kubelet's list has no UIDs. Under a name that is used again, an entry is of the pod that was
    given these very GPUs: kubelet may still list the former pod.
    """
    given = {(pod.key, gpu): uid for uid, pod in usage.items() for gpu in pod.gpus}
    known = {key: pod.uid for key, pod in pods.items()}
    return {
        gpu: GpuUser(entry.key, container, given.get((entry.key, gpu), known.get(entry.key)))
        for entry in listed
        for container, gpus in entry.containers.items()
        for gpu in gpus
    }


def joined(
    usage: Usage, holders: Mapping[GpuUuid, GpuUser], pods: Mapping[PodKey, PodView]
) -> Usage:
    """Return the usage with what kubelet lists of pods that the API server knows."""
    for gpu, holder in holders.items():
        pod = pods.get(holder.key)
        if pod is not None and pod.uid == holder.uid:
            usage = {**usage, **_with(usage, pod.uid, pod.key, {gpu: holder.container})}
    return usage


def to_document(usage: Usage) -> list[dict[str, Any]]:
    """Return the usage as JSON values."""
    return [
        {"uid": pod.uid, "namespace": pod.key.namespace, "name": pod.key.name, "gpus": {**pod.gpus}}
        for pod in usage.values()
    ]


def from_document(document: Any) -> Usage:  # noqa: ANN401 - any JSON value
    """Return what ``to_document`` wrote.

    Raises:
        ValueError: where it is something else.
    """
    stored = _STORED.validate_python(document)
    return {
        pod.uid: PodUsage(
            pod.uid,
            PodKey(pod.namespace, pod.name),
            {GpuUuid(gpu): container for gpu, container in pod.gpus.items()},
        )
        for pod in stored
    }


class _StoredPod(BaseModel):
    uid: str
    namespace: str
    name: str
    gpus: dict[str, str]


_STORED: Final = TypeAdapter(Sequence[_StoredPod])


def _with(usage: Usage, uid: str, key: PodKey, gpus: Mapping[GpuUuid, str]) -> Usage:
    before = usage[uid].gpus if uid in usage else {}
    return {uid: PodUsage(uid, key, {**before, **gpus})}


def _without(gpus: Mapping[GpuUuid, str], taken: Collection[GpuUuid]) -> Mapping[GpuUuid, str]:
    return {gpu: container for gpu, container in gpus.items() if gpu not in taken}
