"""Inject faults on the nodes of the local cluster."""

import subprocess
from pathlib import Path

from localcluster import containers

_CLUSTER = Path(__file__).resolve().parents[2] / "tools" / "cluster"
_TOPOLOGY = "/run/nvidia/driver/lib/topology.conf"


class LocalNodes:
    """The nodes of the local cluster, and the faults to repair."""

    def __init__(self) -> None:
        self._broken: set[str] = set()

    def run(self, node: str, *command: str) -> str:
        """Run a command in a node's namespaces and return its output."""
        done = subprocess.run(
            [str(_CLUSTER), "in", node, *command], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def break_gpu(self, node: str, index: int, nvml_error: int) -> None:
        """Let NVML return an error for one GPU."""
        if node not in self._broken:
            self.run(node, "cp", _TOPOLOGY, f"{_TOPOLOGY}.whole")
            self._broken.add(node)
        self.run(node, "sh", "-c", f"echo fault {index} {nvml_error} >> {_TOPOLOGY}")

    def repair(self) -> None:
        """Repair every fault."""
        for node in sorted(self._broken):
            self.run(node, "mv", f"{_TOPOLOGY}.whole", _TOPOLOGY)
        self._broken.clear()

    def kill(self, program: str) -> int:
        """Send SIGKILL to every process of the nodes' pods that runs the program."""
        return containers.kill(program)
