"""Moves daemons out of the cgroup of this container.

When a container ends, the runtime kills all processes of its cgroup. A daemon outside of it
survives a restart of the component, and so do its clients.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gputopo.runtime.log import fields

_GROUP: Final = "gputopo-mps"
_CPUSET: Final = ("cpuset.cpus", "cpuset.mems")

_log = logging.getLogger(__name__)


class DaemonCgroup:
    """The cgroup of all daemons, beside kubelet's cgroup of all pods."""

    def __init__(self, cgroup_dir: Path | None, own: Path) -> None:
        """Use the hierarchies below ``cgroup_dir``; ``own`` is ``/proc/self/cgroup``.

        If ``cgroup_dir`` is None, daemons stay in this container's cgroup.
        """
        self._cgroup_dir = cgroup_dir
        self._own = own

    def move(self, pid: int) -> None:
        """Move a process. If that fails, it stays where it is."""
        if self._cgroup_dir is None:
            return
        try:
            folders = list(self._folders(self._cgroup_dir))
            for folder in folders:
                _move(pid, folder)
        except OSError as error:
            _log.warning("daemon not moved to another cgroup %s", fields(pid=pid, reason=error))
            return
        if not folders:
            reason = "this container's cgroup is not below kubepods"
            _log.warning("daemon not moved to another cgroup %s", fields(pid=pid, reason=reason))

    def _folders(self, cgroup_dir: Path) -> Iterator[Path]:
        """Yield the cgroup in each hierarchy, of cgroup v1 and v2, in which the container is."""
        for line in self._own.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            parts = Path(path).parts
            pods = next((i for i, part in enumerate(parts) if "kubepods" in part), None)
            if pods is not None:
                name = controllers.removeprefix("name=") or _unified(cgroup_dir)
                yield (cgroup_dir / name).joinpath(*parts[1:pods], _GROUP)


def _unified(cgroup_dir: Path) -> str:
    """Return the folder of cgroup v2: below v1 on a host that has both, otherwise the root."""
    return "" if (cgroup_dir / "cgroup.controllers").exists() else "unified"


def _move(pid: int, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name in _CPUSET:
        # cgroup v1 rejects processes until the cgroup has CPUs and memory nodes.
        file = folder / name
        if file.exists() and not file.read_text().strip():
            file.write_text((folder.parent / name).read_text())
    (folder / "cgroup.procs").write_text(f"{pid}\n")
