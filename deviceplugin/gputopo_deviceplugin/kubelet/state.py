"""The state of the connection to kubelet, written by the registrar and the device plugin."""

from gputopo_deviceplugin.clock import loop_time
from gputopo_kube.changes import ChangeSignal


class KubeletState:
    """Whether kubelet has registered the agent, and watches the agent's devices.

    Attributes:
        registered: whether the agent is registered with kubelet now.
        registrations: number of registrations so far; a restart of kubelet adds one.
        watchers: number of open calls of ``ListAndWatch``, normally 0 or 1.
    """

    def __init__(self, changes: ChangeSignal) -> None:
        self._changes = changes
        self._watched_at = float("inf")
        self.registered = False
        self.registrations = 0
        self.watchers = 0

    @property
    def watched(self) -> bool:
        """Whether a ``ListAndWatch`` call is open. The call ends when kubelet forgets the agent."""
        return self.watchers > 0

    @property
    def watched_seconds(self) -> float:
        """Seconds since kubelet opened the ``ListAndWatch`` call; 0 if no call is open."""
        return loop_time() - self._watched_at if self.watchers else 0.0

    def add_watcher(self) -> None:
        """Record the start of a call of ``ListAndWatch``."""
        self.watchers += 1
        self._watched_at = loop_time()
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
