"""Reads kubelet's books again and again, and tells where they differ from what was placed."""

from collections.abc import Sequence
from typing import Protocol

from gputopo_deviceplugin.admit.tracker import UsageTracker
from gputopo_deviceplugin.events import EventRecorder
from gputopo_deviceplugin.kubelet.pod_resources import ListedPod
from gputopo_deviceplugin.kubelet.state import KubeletState
from gputopo_deviceplugin.report.differences import AllocationDifference, differences


class Books(Protocol):
    """Kubelet's books."""

    async def observe(self) -> list[ListedPod]:
        """Read them while no container is in flight."""
        ...


class AllocationObserver:
    """The books as read last.

    Attributes:
        listed: kubelet's pods.
        tracker: the users of the GPUs, by these pods among others.
        differing: containers that have other GPUs than they were given.
    """

    def __init__(
        self,
        books: Books,
        tracker: UsageTracker,
        kubelet: KubeletState,
        *,
        node: str,
        timeout_seconds: float,
        recorder: EventRecorder,
    ) -> None:
        """Read ``books``, and ask the API server for ``timeout_seconds`` at most."""
        self._books = books
        self._pods = tracker.pods
        self.tracker = tracker
        self._node = node
        self._timeout_seconds = timeout_seconds
        self._recorder = recorder
        self.listed: Sequence[ListedPod] = ()
        self.differing: Sequence[AllocationDifference] = ()
        self._kubelet = kubelet
        self._registration = kubelet.registrations
        self._recorded: set[tuple[str, str]] = set()

    @property
    def lost(self) -> Sequence[AllocationDifference]:
        """Differing containers of which kubelet lost the record.

        They run, and kubelet listed them without GPUs since it was started last.
        """
        return self.tracker.lost

    async def look(self, *, connected: bool = True) -> None:
        """Read the books once; each new difference is told once.

        Where the agent is not ``connected`` to the API server, its pods may be old ones, and
        nothing is compared.

        Raises:
            ListError: where kubelet does not answer; what is known stays.
        """
        listed = await self._books.observe()
        if connected:
            await self._compare(listed)
            self.tracker.join()
        self.listed = listed

    async def _compare(self, listed: Sequence[ListedPod]) -> None:
        holding = {pod.key for pod in listed if any(pod.containers.values())}
        await self._pods.refresh(holding - self._pods.keys(), self._timeout_seconds)
        found = differences(listed, self._pods, self._node)
        # The watch may be behind, and show a pod of old under a name that is taken anew.
        doubtful = {one.pod.key for one in found if one not in self.differing}
        if doubtful:
            unread = await self._pods.refresh(doubtful, self._timeout_seconds)
            found = differences(listed, self._pods, self._node)
            found = [one for one in found if one in self.differing or one.pod.key not in unread]
        for one in found:
            if one not in self.differing:
                self._recorder.record_difference(one.pod, one.message)
        self.differing, self.tracker.lost = found, self._without_record(listed, found)

    def _without_record(
        self, listed: Sequence[ListedPod], found: Sequence[AllocationDifference]
    ) -> list[AllocationDifference]:
        """Return the containers of which kubelet lost the record.

        A pod that ends is listed without GPUs for a moment, until its phase says so. It was
        listed with them before, and kubelet loses records only when it starts. A pod that is
        being deleted does not matter: no new pod can be mistaken for it.
        """
        if self._registration != self._kubelet.registrations:
            self._registration = self._kubelet.registrations
            self._recorded.clear()
        self._recorded |= {
            (self._pods[entry.key].uid, container)
            for entry in listed
            if entry.key in self._pods
            for container, held in entry.containers.items()
            if held
        }
        return [
            one
            for one in found
            if one.missing
            and not one.pod.deleting
            and (one.uid, one.container) not in self._recorded
        ]
