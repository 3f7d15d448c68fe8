"""Reads kubelet's books again and again, and tells where they differ from what was placed."""

from collections.abc import Callable, Sequence
from typing import Protocol

from gputopo_deviceplugin.compare import Difference, differences
from gputopo_deviceplugin.identify import ListedPod
from gputopo_deviceplugin.tracker import UsageTracker


class Books(Protocol):
    """Kubelet's books."""

    async def observe(self) -> list[ListedPod]:
        """Read them while no container is in flight."""
        ...


class Observer:
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
        *,
        node: str,
        timeout_seconds: float,
        on_difference: Callable[[Difference], None],
    ) -> None:
        """Read ``books``, and ask the API server for ``timeout_seconds`` at most."""
        self._books = books
        self._pods = tracker.pods
        self.tracker = tracker
        self._node = node
        self._timeout_seconds = timeout_seconds
        self._on_difference = on_difference
        self.listed: Sequence[ListedPod] = ()
        self.differing: Sequence[Difference] = ()

    async def look(self) -> None:
        """Read the books once; each new difference is told once.

        Raises:
            ListError: where kubelet does not answer; what is known stays.
        """
        listed = await self._books.observe()
        holding = {pod.key for pod in listed if any(pod.containers.values())}
        await self._pods.refresh(holding - self._pods.keys(), self._timeout_seconds)
        found = differences(listed, self._pods, self._node)
        # The watch may be behind, and show a pod of old under a name that is taken anew.
        doubtful = {one.pod.key for one in found if one not in self.differing}
        if doubtful:
            await self._pods.refresh(doubtful, self._timeout_seconds)
            found = differences(listed, self._pods, self._node)
        for one in found:
            if one not in self.differing:
                self._on_difference(one)
        self.listed, self.differing = listed, found
        self.tracker.join()
