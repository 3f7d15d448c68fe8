"""The state of the connection to kubelet, written by the registrar and the device plugin."""

import asyncio

from gputopo_deviceplugin.changes import ChangeSignal


class KubeletState:
    """Whether kubelet has registered the agent, and watches its devices.

    Attributes:
        registered: whether kubelet knows the agent now.
        registrations: number of registrations so far; a restart of kubelet adds one.
        watchers: number of calls of ``ListAndWatch``; kubelet is the only client.
    """

    def __init__(self, changes: ChangeSignal) -> None:
        self._changes = changes
        self._watched_at = float("inf")
        self.registered = False
        self.registrations = 0
        self.watchers = 0

    @property
    def watched(self) -> bool:
        """Whether a ``ListAndWatch`` call is open. It ends when kubelet forgets the agent."""
        return self.watchers > 0

    @property
    def watched_seconds(self) -> float:
        """Time since kubelet began to watch the devices without a break; 0 without a watch."""
        return asyncio.get_running_loop().time() - self._watched_at if self.watchers else 0.0

    def add_watcher(self) -> None:
        """Record the start of a call of ``ListAndWatch``."""
        self.watchers += 1
        self._watched_at = asyncio.get_running_loop().time()
        self._changes.notify()

    def remove_watcher(self) -> None:
        """Record the end of a call of ``ListAndWatch``."""
        self.watchers -= 1
        self._changes.notify()

    def add_registration(self) -> None:
        """Record that kubelet has registered the agent."""
        self.registered = True
        self.registrations += 1
        self._changes.notify()
