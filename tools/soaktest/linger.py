"""Processes that outlive the deletion of their pods by force, for some seconds each."""

import time
from dataclasses import dataclass
from pathlib import Path

from localcluster import stuck
from localcluster.access import NodeAccess
from localcluster.errors import ClusterError
from soaktest.journal import Journal


@dataclass(frozen=True, slots=True)
class _Held:
    pod_uid: str
    name: str
    group: Path
    until: float


class Lingering:
    """Protects processes from kubelet's SIGKILL, and ends them later."""

    def __init__(self, nodes: NodeAccess, journal: Journal) -> None:
        self._nodes, self._journal = nodes, journal
        self._held: list[_Held] = []

    def begin(self, pod_uid: str, name: str, seconds: float) -> None:
        """Protect the pod's processes for some seconds."""
        pids = [one.pid for one in stuck.gpu_processes(self._nodes, pod_uid)]
        if not pids:
            return
        try:
            group = stuck.freeze(self._nodes, pod_uid)
        except (ClusterError, OSError) as error:
            self._journal.note(f"{name} does not linger: {error}")
            return
        self._journal.count("pods deleted by force while their processes lived")
        self._journal.note(f"{name}: processes {pids} live for {seconds:.1f} s")
        self._held.append(_Held(pod_uid, name, group, time.monotonic() + seconds))

    def end_due(self) -> None:
        """End the processes whose time is over."""
        self._end([held for held in self._held if held.until <= time.monotonic()])

    def end_all(self) -> None:
        """End all protected processes."""
        self._end(list(self._held))

    def _end(self, ended: list[_Held]) -> None:
        for held in ended:
            self._held.remove(held)
            stuck.kill(self._nodes, held.pod_uid)
            stuck.thaw(held.group)
            self._journal.note(f"{held.name}: processes ended from outside")
