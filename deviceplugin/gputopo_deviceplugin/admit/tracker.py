"""Remembers which pod uses which GPUs, and looks whether its processes still run."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.admit.identify import ContainerAllocation
from gputopo_deviceplugin.admit.usage import (
    PodState,
    Usage,
    from_document,
    granted,
    joined,
    listed_holders,
    state_of,
    to_document,
)
from gputopo_deviceplugin.admit.verify import GpuUser
from gputopo_deviceplugin.kubelet.pod_resources import ListedPod
from gputopo_deviceplugin.node_pods import NodePods
from gputopo_deviceplugin.report.differences import AllocationDifference, restored
from gputopo_deviceplugin.statefile import StateFile
from gputopo_kube.pods import PodKey


class Processes(Protocol):
    """The processes of this node's pods.

    Attributes:
        available: False where processes cannot be seen.
    """

    available: bool

    def running(self, uids: Collection[str]) -> set[str]:
        """Return the pods of which a process runs."""
        ...


class UsageTracker:
    """The GPUs in use on this node, by the agent's grants, kubelet's list and processes.

    A pod is forgotten when the API server says that it ended or was deleted, no process of it
    runs, and kubelet does not list it as a pod that it has yet to start.

    Attributes:
        pods: of this node, as the API server knows them.
        lost: running containers of which kubelet lost the record; they count as listed.
    """

    def __init__(
        self,
        pods: NodePods,
        processes: Processes,
        file: StateFile,
        on_failure: Callable[[str, Exception], None],
    ) -> None:
        """Continue with what ``file`` has; ``on_failure`` is called where it is not written."""
        self.pods = pods
        self._processes = processes
        self._file = file
        self._on_failure = on_failure
        self._usage: Usage = file.load(from_document) or {}
        self._listed: Sequence[ListedPod] | None = None
        self._unlisted: set[GpuUuid] = set()
        self._granted_since: set[str] = set()
        self.lost: Sequence[AllocationDifference] = ()

    @property
    def available(self) -> bool:
        """Whether processes can be seen."""
        return self._processes.available

    def grant(self, found: ContainerAllocation) -> None:
        """Remember a grant, also in the file."""
        self._usage = granted(self._usage, found)
        self._unlisted.update(found.gpus)
        self._granted_since.add(found.pod.uid)
        self._save()

    def see(self, listed: Sequence[ListedPod]) -> None:
        """Take over kubelet's list, which was read after the last grant."""
        self._listed = listed
        self._granted_since.clear()
        self._unlisted -= self.listed().keys()

    def join(self) -> None:
        """Remember what kubelet lists.

        To be called when the pods that it lists were read: the watch may be behind, and know a
        former pod under the name of one.
        """
        self._usage = joined(self._usage, self.listed(), self.pods)

    def listed(self) -> dict[GpuUuid, GpuUser]:
        """Return the user of each GPU by kubelet's list."""
        listed = restored(self._listed or (), self.lost)
        return listed_holders(listed, self._usage, self.pods)

    def assigned(self) -> frozenset[GpuUuid]:
        """Return the GPUs of all containers: by kubelet's list, and grants not listed yet."""
        live = (
            pod for uid, pod in self._usage.items() if self._state(pod.key, uid) is PodState.LIVE
        )
        granted_only = self._unlisted.intersection(gpu for pod in live for gpu in pod.gpus)
        return frozenset(self.listed()) | granted_only

    def gone(self) -> dict[GpuUuid, GpuUser]:
        """Return the GPUs that processes of ended and deleted pods use now."""
        return _gone(self._look())

    def users(self) -> dict[GpuUuid, GpuUser]:
        """Return the users to publish: kubelet's list, and processes as they run now.

        Until kubelet has listed its pods, the remembered ones stand for the list.
        Kubelets before 1.34 go on listing pods that have ended.
        """
        remembered = self._look()
        self._save()
        if self._listed is None:
            return remembered
        listed = {gpu: one for gpu, one in self.listed().items() if not self._has_ended(one)}
        return {**listed, **_gone(remembered)}

    def holders(self, gpus: Collection[GpuUuid]) -> dict[GpuUuid, GpuUser]:
        """Return the users of these GPUs: live pods, and processes as they run now."""
        listed = {gpu: one for gpu, one in self.listed().items() if self._is_live(one)}
        found = {**listed, **self._look()}
        return {gpu: found[gpu] for gpu in gpus if gpu in found}

    def keys(self, gpus: Collection[GpuUuid]) -> set[tuple[PodKey, str | None]]:
        """Return name and UID of each pod that may use one of these GPUs."""
        listed = {(one.key, one.uid) for gpu, one in self.listed().items() if gpu in gpus}
        used = {(pod.key, pod.uid) for pod in self._usage.values() if pod.gpus.keys() & set(gpus)}
        return listed | used

    def _holders(self, states: Mapping[str, PodState]) -> dict[GpuUuid, GpuUser]:
        """Return the users among these pods; where two use a GPU, the one that is gone."""
        order = sorted(states, key=lambda uid: states[uid] is not PodState.LIVE)
        return dict(one for uid in order for one in self._usage[uid].holders(states[uid]))

    def _look(self) -> dict[GpuUuid, GpuUser]:
        """Forget pods that use no GPU any longer; return the users among the others."""
        states = {uid: self._state(pod.key, uid) for uid, pod in self._usage.items()}
        gone = [uid for uid, state in states.items() if state is not PodState.LIVE]
        running = self._processes.running(gone)
        deleted = {uid for uid in gone if states[uid] is PodState.DELETED}
        # Kubelet may be about to start a pod whose grant is newer than its list.
        ended = {*gone} - running - self._granted_since
        if ended:
            forgotten = ended - self._may_start(deleted)
            self._usage = {uid: pod for uid, pod in self._usage.items() if uid not in forgotten}
        return self._holders({uid: state for uid, state in states.items() if uid not in ended})

    def _may_start(self, deleted: set[str]) -> set[str]:
        """Return the deleted pods of which kubelet may not know yet that they were deleted."""
        if self._listed is None:
            return deleted
        return deleted & {one.uid for one in self.listed().values()}

    def _state(self, key: PodKey, uid: str) -> PodState:
        """Return the state of a pod; one that is not known yet counts as live."""
        return state_of(key, uid, self.pods) if self.pods.knows(key) else PodState.LIVE

    def _has_ended(self, holder: GpuUser) -> bool:
        uid = holder.uid
        return uid is not None and self._state(holder.key, uid) is PodState.ENDED

    def _is_live(self, holder: GpuUser) -> bool:
        uid = holder.uid
        return uid is not None and self._state(holder.key, uid) is PodState.LIVE

    def _save(self) -> None:
        try:
            self._file.save(to_document(self._usage))
        except OSError as error:
            self._on_failure("state", error)


def _gone(holders: Mapping[GpuUuid, GpuUser]) -> dict[GpuUuid, GpuUser]:
    return {gpu: one for gpu, one in holders.items() if one.gone is not None}
