"""The folders of one shared GPU."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gputopo_mps.files import clear
from gputopo_mps.mounts import DEV_SHM, mount_tmpfs, unmount

_PIPE_SIZE: Final = "4m"
_PIPE_FILES: Final = 4096


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """Limits of the shared memory of one GPU.

    Attributes:
        size: as in the option of mount, such as ``8g``.
        files: largest number of files.
    """

    size: str
    files: int


@dataclass(frozen=True, slots=True)
class GpuFolders:
    """The folders of one shared GPU.

    Containers get only ``pipe`` and ``shm``, which are mounts of their own.

    Attributes:
        uuid: the UUID of the GPU.
        root: contains all of them.
        memory: the limits of ``shm``; None if daemons and clients have the component's ``/dev/shm``
            and the folders are no mounts.
    """

    uuid: str
    root: Path
    memory: SharedMemory | None = None

    @property
    def pipe(self) -> Path:
        """Sockets of daemon and server; mounted into containers that share the GPU."""
        return self.root / "pipe"

    @property
    def log(self) -> Path:
        """``control.log`` and ``server.log``."""
        return self.root / "log"

    @property
    def shm(self) -> Path:
        """What daemon, server and clients have as ``/dev/shm``."""
        own = self.root / "shm"
        if self.memory is None:
            return DEV_SHM
        former = self.root.parent.parent / "shm"
        # Before, all GPUs of a node had one folder. A daemon of that time goes on with it.
        return former if self.root.exists() and not own.exists() else own

    @property
    def state(self) -> Path:
        """JSON file that exists while the daemon must run."""
        return self.root / "state.json"

    @property
    def daemon(self) -> Path:
        """JSON file that names the processes of MPS."""
        return self.root / "daemon.json"

    def create(self) -> None:
        """Create the folders. Servers of all users must be able to open them."""
        self.root.mkdir(parents=True, exist_ok=True, mode=0o755)
        memory, is_new = self.memory, not self.pipe.exists()
        if memory is not None and is_new:
            mount_tmpfs(self.root / "shm", mode="1777", size=memory.size, files=memory.files)
            mount_tmpfs(self.pipe, mode="0755", size=_PIPE_SIZE, files=_PIPE_FILES)
        for folder in (self.root, self.pipe, self.log):
            folder.mkdir(exist_ok=True, mode=0o755)
            folder.chmod(0o755)

    def remove(self) -> None:
        """Remove the folders with everything that containers have left in them."""
        for folder in (self.pipe, self.root / "shm"):
            unmount(folder)
        if self.pipe.exists():
            clear(self.pipe)  # of an earlier release, it is no mount
        shutil.rmtree(self.root)

    def environment(self) -> dict[str, str]:
        """Return the environment of the daemon and of the control program."""
        kept = {name: text for name, text in os.environ.items() if not name.startswith("CUDA_")}
        return {
            **kept,
            "CUDA_VISIBLE_DEVICES": self.uuid,
            "CUDA_MPS_PIPE_DIRECTORY": str(self.pipe),
            "CUDA_MPS_LOG_DIRECTORY": str(self.log),
        }
