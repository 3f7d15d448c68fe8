"""The files of the simulated NVML: the compute mode of a GPU and its processes.

``tools/fakenvml/processes.c`` documents them.
"""

import fcntl
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO

EXCLUSIVE_PROCESS = "3"


@dataclass(frozen=True, slots=True)
class ProcessFile:
    """One process of a GPU; the lock on its file shows that it runs."""

    path: Path
    file: IO[str]

    def write(self, used_bytes: int) -> None:
        """Replace the memory that the process uses."""
        self.file.seek(0)
        self.file.truncate()
        self.file.write(f"{used_bytes}\n")
        self.file.flush()

    def remove(self) -> None:
        """End the registration."""
        self.path.unlink(missing_ok=True)
        self.file.close()


@dataclass(frozen=True, slots=True)
class GpuFiles:
    """The folder of one GPU."""

    folder: Path

    @classmethod
    def find(cls, uuid: str) -> "GpuFiles | None":
        """Return the folder of a GPU, or None if no simulated NVML is visible."""
        topology = os.environ.get("FAKE_NVML_TOPOLOGY")
        beside = Path(sys.argv[0]).resolve().parents[1] / "lib" / "topology.conf"
        conf = Path(topology) if topology else beside
        return cls(conf.parent / "compute.d" / uuid) if uuid and conf.exists() else None

    def is_exclusive(self) -> bool:
        """Whether the compute mode is EXCLUSIVE_PROCESS."""
        try:
            return (self.folder / "mode").read_text().strip() == EXCLUSIVE_PROCESS
        except FileNotFoundError:
            return False

    def register(self, pid: int, kind: str) -> ProcessFile:
        """Show a process in NVML: ``C`` with its own context, ``M`` as a client of MPS."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{pid}.{kind}"
        file = path.open("w")
        fcntl.flock(file, fcntl.LOCK_EX)
        found = ProcessFile(path, file)
        found.write(0)
        return found
