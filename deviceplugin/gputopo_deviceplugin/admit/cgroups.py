"""Finds the pods of this node that have running processes, by the cgroups of the pods.

The agent does not share the host's PID namespace, so ``cgroup.procs`` of cgroup v1 does not list
processes of other pods. The agent reads ``pids.current`` (v1) or ``cgroup.events`` (v2) instead.
These files have the same content in every namespace. They also count processes of child cgroups,
so the cgroup of a pod covers all containers of the pod.
"""

import errno
import logging
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from gputopo.runtime.log import fields

_DEEPEST: Final = 4
"""Folder levels to search for kubelet's cgroup. Kubelet's ``cgroupRoot`` adds one or two levels."""

_WITHOUT_PODS: Final = (".service", ".mount", ".socket", ".swap", "user.slice", "init.scope")
_GONE: Final = (errno.ENOENT, errno.ENODEV)
"""Errors of reads from a removed cgroup. A read during the removal fails with ENODEV."""

_log = logging.getLogger(__name__)


class Cgroups:
    """Finds the cgroups of pods. Supports cgroup v1 and v2 and both cgroup drivers of kubelet.

    Attributes:
        available: False if no cgroup of kubelet was found. Then no process of a pod is visible.
    """

    def __init__(self, directory: Path) -> None:
        """Search ``directory``, the mount point of the host's ``/sys/fs/cgroup``."""
        self._directory = directory
        self._roots: list[Path] = []
        self.available = True
        self._search()

    def running(self, uids: Collection[str]) -> set[str]:
        """Return the UIDs of the pods that have a running process, such as the pause process.

        The cost is a few stat calls for each pod. If a pod has no cgroup, each call searches
        for kubelet's cgroups again, because kubelet's ``cgroupRoot`` may have changed.
        """
        folders = {uid: self._folders(uid) for uid in uids}
        if not all(folders.values()):
            self._search()
            folders = {uid: self._folders(uid) for uid in uids}
        return {uid for uid, found in folders.items() if any(map(_populated, found))}

    def _search(self) -> None:
        self._roots = list(_kubepods(_hierarchy(self._directory), _DEEPEST))
        available = bool(self._roots)
        if available != self.available:
            state = "found" if available else "not found, so GPUs of deleted pods are free at once"
            _log.warning("cgroups searched %s", fields(state=state, directory=self._directory))
        self.available = available

    def _folders(self, uid: str) -> list[Path]:
        names = (name for root in self._roots for name in _candidates(root, uid))
        return [folder for folder in names if folder.is_dir()]


def _hierarchy(directory: Path) -> Path:
    """Return the folder of cgroup v2's single hierarchy, or of v1's pids controller."""
    unified = (directory / "cgroup.controllers").exists()
    return directory if unified else directory / "pids"


def _kubepods(folder: Path, levels: int) -> Iterator[Path]:
    """Yield each cgroup in which kubelet creates the cgroups of pods.

    The cgroupfs driver names this cgroup ``kubepods``. The systemd driver names it
    ``kubepods.slice``, or ``kubelet-kubepods.slice`` if kubelet's ``cgroupRoot`` is ``/kubelet``.
    """
    try:
        below = [entry for entry in folder.iterdir() if entry.is_dir()]
    except OSError:
        return
    for entry in below:
        if entry.name == "kubepods" or entry.name.endswith("kubepods.slice"):
            yield entry
        elif levels > 1 and not entry.name.endswith(_WITHOUT_PODS):
            yield from _kubepods(entry, levels - 1)


def _candidates(root: Path, uid: str) -> Iterator[Path]:
    """Yield the possible paths of a pod's cgroup, one for each quality-of-service class."""
    if root.name == "kubepods":
        for parent in (root, root / "burstable", root / "besteffort"):
            yield parent / f"pod{uid}"
        return
    prefix, name = root.name.removesuffix(".slice"), f"pod{uid.replace('-', '_')}.slice"
    yield root / f"{prefix}-{name}"
    for kind in ("burstable", "besteffort"):
        yield root / f"{prefix}-{kind}.slice" / f"{prefix}-{kind}-{name}"


def _populated(folder: Path) -> bool:
    """Return whether a process runs in this cgroup. Return True if the cgroup cannot be read."""
    try:
        events = folder / "cgroup.events"
        if events.exists():
            return "populated 0" not in events.read_text().splitlines()
        return int((folder / "pids.current").read_text()) > 0
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in _GONE:
            return False
        _log.error(
            "cannot read the cgroup of a pod; the agent treats the pod as running: %s",
            fields(path=folder, reason=error),
        )
        return True
