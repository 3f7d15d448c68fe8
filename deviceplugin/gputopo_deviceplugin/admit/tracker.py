"""Keeps track of the pods that use GPUs, and checks whether their processes still run."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Protocol

from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.identify import ContainerAllocation
from gputopo_deviceplugin.admit.usage import (
    GpuUser,
    Lost,
    PodState,
    Usage,
    from_document,
    state_of,
    to_document,
    users_in_list,
    users_of,
    with_allocation,
    with_listed,
)
from gputopo_deviceplugin.apiserver.node_pods import NodePods
from gputopo_deviceplugin.kubelet.pod_resources import ListedPod
from gputopo_deviceplugin.statefile import StateFile
from gputopo_kube.changes import ChangeSignal
from gputopo_kube.document import ObjectKey

_PROCESS_SECONDS: Final = 0.25
"""Pause between two checks of the processes of ended and deleted pods."""


class PodProcesses(Protocol):
    """The processes of this node's pods.

    Attributes:
        available: False if the agent cannot see the processes of pods.
    """

    available: bool

    def running(self, uids: Collection[str]) -> set[str]:
        """Return the UIDs of the pods that have a running process."""
        ...


class UsageTracker:
    """Records which pod uses which GPU of this node.

    The tracker removes an ended or deleted pod after the last process of the pod has ended. While
    kubelet lists a deleted pod, the tracker keeps the pod, because kubelet may still start it.

    Attributes:
        pods: the pods of this node, as the API server reports them.
        listed: kubelet's pod-resources list; None until the agent has read it.
        lost: GPUs that running containers use, but that are missing in kubelet's list.
    """

    def __init__(
        self,
        pods: NodePods,
        processes: PodProcesses,
        file: StateFile,
        on_failure: Callable[[str, Exception], None],
    ) -> None:
        """Load the users of GPUs from ``file``. If a later write fails, call ``on_failure``."""
        self.pods = pods
        self.listed: Sequence[ListedPod] | None = None
        self.lost: Lost = {}
        self._processes = processes
        self._file = file
        self._on_failure = on_failure
        self._usage: Usage = file.load(from_document) or {}
        self._unlisted: set[GpuUuid] = set()
        self._allocated_since_list: set[str] = set()

    @property
    def processes_visible(self) -> bool:
        """Whether the agent can see the processes of pods."""
        return self._processes.available

    @property
    def uids(self) -> frozenset[str]:
        """UIDs of the pods that use GPUs or may still use them."""
        return frozenset(uid for uid, _ in self._usage)

    def add_allocation(self, allocation: ContainerAllocation) -> None:
        """Record an allocation of GPUs to a container, in memory and in the state file."""
        self._usage = with_allocation(self._usage, allocation)
        self._unlisted.update(allocation.gpus)
        self._allocated_since_list.add(allocation.pod.uid)
        self._save()

    def update_listed(self, listed: Sequence[ListedPod]) -> None:
        """Replace the stored pod-resources list by ``listed``, read after the last allocation."""
        self.listed = listed
        self._allocated_since_list.clear()
        self._unlisted -= self.listed_users().keys()

    def add_listed(self) -> None:
        """Record the pods in kubelet's list as users of their GPUs.

        The caller must first read the listed pods from the API server again, because the watch of
        pods may be late and may still show a deleted pod of the same name.
        """
        self._usage = with_listed(self._usage, self.listed_users(), self.pods)

    def listed_users(self) -> dict[GpuUuid, GpuUser]:
        """Return the user of each GPU according to kubelet's pod-resources list."""
        return users_in_list(self.listed or (), self.lost, self._usage, self.pods)

    def assigned_gpus(self) -> frozenset[GpuUuid]:
        """Return the GPUs in kubelet's list, and allocated GPUs that kubelet does not list yet."""
        live = {gpu for (_, gpu), user in self._usage.items() if self._is_live(user)}
        return frozenset(self.listed_users()) | (self._unlisted & live)

    def users_after_end(self) -> dict[GpuUuid, GpuUser]:
        """Return the GPUs that processes of ended or deleted pods use, each with its pod."""
        return _after_end(self._update_usage())

    def all_users(self) -> dict[GpuUuid, GpuUser]:
        """Return the user of each GPU: live pods, and ended or deleted pods with a running process.

        The live pods come from kubelet's list. Until the agent has read this list, they come from
        the state file. Kubelets before 1.34 also list ended pods, which the method ignores.
        """
        stored = self._update_usage()
        self._save()
        if self.listed is None:
            return stored
        users = self.listed_users().items()
        listed = {gpu: user for gpu, user in users if self._state(user) is not PodState.ENDED}
        return {**listed, **_after_end(stored)}

    def find_users(self, gpus: Collection[GpuUuid]) -> dict[GpuUuid, GpuUser]:
        """Return the users of ``gpus``: live pods, and ended or deleted pods with a process."""
        listed = {gpu: user for gpu, user in self.listed_users().items() if self._is_live(user)}
        found = {**listed, **self._update_usage()}
        return {gpu: found[gpu] for gpu in gpus if gpu in found}

    def find_pods(self, gpus: Collection[GpuUuid]) -> set[tuple[ObjectKey, str | None]]:
        """Return name and UID of each pod that may use one of these GPUs."""
        listed = {(user.key, user.uid) for gpu, user in self.listed_users().items() if gpu in gpus}
        stored = {(user.key, user.uid) for (_, gpu), user in self._usage.items() if gpu in gpus}
        return listed | stored

    async def watch_processes(self, changes: ChangeSignal) -> None:
        """Notify ``changes`` when the set of GPUs that ended or deleted pods use has changed."""
        before: frozenset[GpuUuid] = frozenset()
        while True:
            await asyncio.sleep(_PROCESS_SECONDS)
            gpus = frozenset(self.users_after_end())
            if gpus != before:
                before = gpus
                changes.notify()

    def _update_usage(self) -> dict[GpuUuid, GpuUser]:
        """Remove the pods that no longer use GPUs, and return the remaining users of GPUs."""
        states = {uid: self._known_state(user.key, uid) for (uid, _), user in self._usage.items()}
        not_live = [uid for uid, state in states.items() if state is not PodState.LIVE]
        running = self._processes.running(not_live)
        # Kubelet may be about to start a pod whose allocation is newer than its list.
        finished = {*not_live} - running - self._allocated_since_list
        if finished:
            forgotten = finished - self._may_start(states)
            self._usage = {
                key: user for key, user in self._usage.items() if key[0] not in forgotten
            }
        using = {uid: state for uid, state in states.items() if uid not in finished}
        return users_of(self._usage, using)

    def _may_start(self, states: Mapping[str, PodState]) -> set[str]:
        """Return the deleted pods that kubelet may still start, because kubelet lists them."""
        deleted = {uid for uid, state in states.items() if state is PodState.DELETED}
        if self.listed is None:
            return deleted
        return deleted & {user.uid for user in self.listed_users().values()}

    def _known_state(self, key: ObjectKey, uid: str) -> PodState:
        """Return the state of a pod. If the agent has not read the pod yet, return LIVE."""
        return state_of(key, uid, self.pods) if self.pods.knows(key) else PodState.LIVE

    def _state(self, user: GpuUser) -> PodState | None:
        return None if user.uid is None else self._known_state(user.key, user.uid)

    def _is_live(self, user: GpuUser) -> bool:
        return self._state(user) is PodState.LIVE

    def _save(self) -> None:
        try:
            self._file.save(to_document(self._usage))
        except OSError as error:
            self._on_failure("state", error)


def _after_end(users: Mapping[GpuUuid, GpuUser]) -> dict[GpuUuid, GpuUser]:
    return {gpu: user for gpu, user in users.items() if user.state is not PodState.LIVE}
