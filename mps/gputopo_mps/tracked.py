"""The processes of MPS of one GPU, by records of the component and of the kernel.

Pods that share the GPU can write the PID file of the daemon, and their processes can have any
command line and environment. So neither names a process that is killed.
"""

import logging
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict

from gputopo.runtime.log import fields
from gputopo_kube.json_file import read_json, write_json
from gputopo_mps.cgroups import DaemonCgroup
from gputopo_mps.folders import GpuFolders
from gputopo_mps.processes import (
    ProcessHandle,
    ProcessId,
    boot_id,
    cgroup_of,
    children_of,
    executable_of,
    has_variable,
    process_id,
)

_PROGRAM: Final = "nvidia-cuda-mps-control"

_log = logging.getLogger(__name__)


class DaemonRecord(BaseModel):
    """The file that names the processes, for a component that starts again.

    Attributes:
        boot: the boot of the node.
        executable: the program of the daemon.
        servers: children of the daemon, which can survive it.
    """

    model_config = ConfigDict(frozen=True)

    boot: str
    daemon: ProcessId
    executable: str
    servers: tuple[ProcessId, ...] = ()


class MpsProcesses:
    """The control daemon of one GPU and its servers."""

    def __init__(self, folders: GpuFolders, cgroup: DaemonCgroup) -> None:
        self._folders = folders
        self._cgroup = cgroup
        self._record: DaemonRecord | None = None
        self._daemon: ProcessHandle | None = None

    @property
    def is_running(self) -> bool:
        """Whether the daemon runs."""
        return self._daemon is not None and self._daemon.is_running

    def prepare(self) -> list[Path]:
        """Return the files to which a new daemon writes its PID, to enter its cgroup."""
        return self._cgroup.prepare(self._folders.uuid)

    def record(self, pid: int) -> bool:
        """Take a new daemon, which cannot end and be replaced meanwhile; False if it has ended."""
        found = process_id(pid)
        self._close()
        self._daemon = ProcessHandle.open(found) if found is not None else None
        if found is None or self._daemon is None:
            return False
        self._save(DaemonRecord(boot=boot_id(), daemon=found, executable=executable_of(found.pid)))
        return True

    def update(self) -> None:
        """Record the servers, because they can survive the daemon."""
        if self._record is not None and self.is_running:
            servers = tuple(sorted(children_of(self._record.daemon.pid), key=lambda each: each.pid))
            if servers and servers != self._record.servers:
                self._save(self._record.model_copy(update={"servers": servers}))

    def restore(self) -> None:
        """Find the daemon that an earlier start of the component has recorded."""
        self._record = self._load()
        if self._record is not None and self._record.boot != boot_id():
            self._record = None
        self._close()
        if self._record is None:
            self._adopt()
        else:
            self._daemon = self._opened(self._record.daemon, self._record.executable)

    def running(self) -> list[ProcessHandle]:
        """Return the processes that run. The caller closes them."""
        found = set(self._members())
        if self._record is not None:
            found |= {self._record.daemon, *self._record.servers}
            if self.is_running:
                found |= set(children_of(self._record.daemon.pid))
        return [each for known in found if (each := self._opened(known)) is not None]

    def forget(self) -> None:
        """Forget the processes, which have ended."""
        self._close()
        self._record = None
        self._folders.daemon.unlink(missing_ok=True)
        self._cgroup.remove(self._folders.uuid)

    def _members(self) -> list[ProcessId]:
        pids = self._cgroup.members(self._folders.uuid)
        return [found for pid in pids if (found := process_id(pid)) is not None]

    def _opened(self, known: ProcessId, executable: str = "") -> ProcessHandle | None:
        """Return a process, if it runs in the cgroup of the GPU or of the component."""
        handle = ProcessHandle.open(known)
        if handle is None:
            return None
        is_member = known.pid in self._cgroup.members(self._folders.uuid)
        is_own = is_member or cgroup_of(known.pid) == Path("/proc/self/cgroup").read_text()
        if is_own and executable in {"", executable_of(known.pid)} and handle.is_running:
            return handle
        handle.close()
        return None

    def _adopt(self) -> None:
        """Take the daemon of a component that recorded none, from the cgroup of that time.

        No container can put a process there, but that component could be deceived: so only a
        process with the program of MPS is taken. It moves to the cgroup of its GPU.
        """
        pipe = str(self._folders.pipe)
        for pid in sorted(self._cgroup.members()):
            is_control = Path(executable_of(pid)).name == _PROGRAM
            if not is_control or not has_variable(pid, "CUDA_MPS_PIPE_DIRECTORY", pipe):
                continue
            for each in (pid, *(child.pid for child in children_of(pid))):
                for file in self.prepare():
                    file.write_text(f"{each}\n")
            if self.record(pid):
                _log.info(
                    "daemon of an earlier release %s", fields(gpu=self._folders.uuid, pid=pid)
                )
                return

    def _save(self, record: DaemonRecord) -> None:
        self._record = record
        write_json(self._folders.daemon, record.model_dump(mode="json"))

    def _load(self) -> DaemonRecord | None:
        return read_json(self._folders.daemon, DaemonRecord.model_validate)

    def _close(self) -> None:
        if self._daemon is not None:
            self._daemon.close()
        self._daemon = None


def kill_others(cgroup: DaemonCgroup) -> None:
    """Kill the processes of an earlier release that no GPU has taken."""
    known = [found for pid in cgroup.members() if (found := process_id(pid)) is not None]
    for handle in filter(None, map(ProcessHandle.open, known)):
        if handle.identity.pid in cgroup.members():
            _log.warning("process of an earlier release killed %s", fields(pid=handle.identity.pid))
            handle.kill()
        handle.close()
