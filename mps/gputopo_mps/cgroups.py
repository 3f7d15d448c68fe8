"""The cgroups of daemons, one for each GPU, outside the cgroup of this container.

When a container ends, the runtime kills all processes of its cgroup. A daemon outside of it
survives a restart of the component, and so do its clients. No container can put a process there,
so the members of the cgroup are the processes of MPS.
"""

import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from gputopo.runtime.log import fields

_GROUP: Final = "gputopo-mps"
_PROCESSES: Final = "cgroup.procs"
_CPUSET: Final = ("cpuset.cpus", "cpuset.mems")

_log = logging.getLogger(__name__)


class DaemonCgroup:
    """The cgroups of all daemons, beside kubelet's cgroup of all pods."""

    def __init__(self, cgroup_dir: Path | None, own: Path) -> None:
        """Use the hierarchies below ``cgroup_dir``; ``own`` is ``/proc/self/cgroup``.

        If ``cgroup_dir`` is None, daemons stay in this container's cgroup.
        """
        self._cgroup_dir = cgroup_dir
        self._own = own

    def prepare(self, gpu: str) -> list[Path]:
        """Create the cgroup of a GPU; return the files to which its daemon writes its PID.

        If that is not possible, the daemon stays in this container's cgroup: an empty list.
        """
        if self._cgroup_dir is None:
            return []
        try:
            folders = list(self._folders(self._cgroup_dir))
            for folder in folders:
                _create(folder)
                _create(folder / gpu)
        except OSError as error:
            _log.warning("daemon not moved to another cgroup %s", fields(gpu=gpu, reason=error))
            return []
        if not folders:
            reason = "this container's cgroup is not below kubepods"
            _log.warning("daemon not moved to another cgroup %s", fields(gpu=gpu, reason=reason))
        return [folder / gpu / _PROCESSES for folder in folders]

    def members(self, gpu: str = "") -> set[int]:
        """Return the PIDs in the cgroup of a GPU; by default those that are in that of no GPU."""
        if self._cgroup_dir is None:
            return set()
        found: set[int] = set()
        with suppress(OSError):
            for folder in self._folders(self._cgroup_dir):
                found |= {int(word) for word in (folder / gpu / _PROCESSES).read_text().split()}
        return found

    def remove(self, gpu: str) -> None:
        """Remove the cgroup of a GPU, if it is empty."""
        if self._cgroup_dir is None:
            return
        with suppress(OSError):
            for folder in self._folders(self._cgroup_dir):
                (folder / gpu).rmdir()

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


def _create(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    for name in _CPUSET:
        # cgroup v1 rejects processes until the cgroup has CPUs and memory nodes. In cgroup v2,
        # the root has no such files.
        file, outer = folder / name, folder.parent / name
        if file.exists() and outer.exists() and not file.read_text().strip():
            file.write_text(outer.read_text())
