"""Starts or stops MPS for a GPU and is killed at one of its changes to files or processes.

``python -m support.mps.killed SETTINGS UUID`` reads lines such as ``start 3`` from its standard
input. For each it forks a process that kills itself before its third change, and prints ``killed``
or, if there are fewer changes, ``done``.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from gputopo_mps.cgroups import DaemonCgroup
from gputopo_mps.faults import FaultStore
from gputopo_mps.metrics import MpsMetrics
from gputopo_mps.nvml import GpuDriver
from gputopo_mps.parts import NodeParts
from gputopo_mps.processes import Processes
from gputopo_mps.settings import MpsSettings
from gputopo_mps.supervisor import SharedGpus

_CHANGES = frozenset(
    {
        *("os.chmod", "os.kill", "os.mkdir", "os.remove", "os.rename", "os.rmdir"),
        *("os.posix_spawn", "shutil.rmtree", "subprocess.Popen"),
    }
)


class Killer:
    """Counts changes as an audit hook. Equal changes, such as repeated commands, count once."""

    def __init__(self, number: int) -> None:
        self.armed = False
        self._number = number
        self._seen: set[tuple[str, str]] = set()

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        is_new_file = event == "open" and "w" in str(arguments[1] or "")
        if not self.armed or not (event in _CHANGES or is_new_file):
            return
        self._seen.add((event, str(arguments[0])))
        if len(self._seen) >= self._number:
            self.armed = False  # this is a change too
            os.kill(os.getpid(), signal.SIGKILL)


def shared_gpus(settings: MpsSettings) -> SharedGpus:
    """Return the GPUs as the component creates them."""
    return SharedGpus(
        NodeParts(
            settings,
            GpuDriver(settings.library_dir, settings.nvml_timeout_seconds),
            Processes(settings.proc_dir),
            FaultStore(settings.run_dir / "faults.json", settings.fault_keep_seconds),
            MpsMetrics(),
            DaemonCgroup(None, Path("/proc/self/cgroup")),
            lambda _: {},
        )
    )


async def work(settings: MpsSettings, uuid: str, operation: str, killer: Killer) -> None:
    """Carry out one operation."""
    gpus = shared_gpus(settings)
    await gpus.recover()
    if operation == "stop":
        await gpus.start(uuid)
    killer.armed = True
    await (gpus.start(uuid) if operation == "start" else gpus.stop(uuid))
    killer.armed = False


def main() -> None:
    """Respond to the lines of the standard input."""
    settings = MpsSettings.model_validate_json(sys.argv[1])
    for line in sys.stdin:
        operation, number = line.split()
        pid = os.fork()
        if not pid:
            killer = Killer(int(number))
            sys.addaudithook(killer)
            asyncio.run(work(settings, sys.argv[2], operation, killer))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        print("done" if status == 0 else "killed", flush=True)


if __name__ == "__main__":
    main()
