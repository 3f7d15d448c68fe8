"""Creates the parts of the component and runs their loops."""

import asyncio
import fcntl
import logging
import os
from pathlib import Path
from typing import Final

from gputopo.runtime.log import fields
from gputopo_kube.changes import ChangeSignal
from gputopo_kube.client import AsyncClient
from gputopo_kube.probes import Pulse
from gputopo_mps.cgroups import DaemonCgroup
from gputopo_mps.faults import FaultStore
from gputopo_mps.metrics import MpsMetrics
from gputopo_mps.nvml import GpuDriver
from gputopo_mps.parts import NodeParts
from gputopo_mps.pods import SharingPods
from gputopo_mps.processes import Processes
from gputopo_mps.server import serving
from gputopo_mps.settings import MpsSettings
from gputopo_mps.supervisor import SharedGpus
from gputopo_mps.termination import ClientTerminator

_LOCK_SECONDS: Final = 0.5

_log = logging.getLogger(__name__)


class MpsComponent:
    """The component on one node."""

    def __init__(
        self, settings: MpsSettings, client: AsyncClient, metrics: MpsMetrics, pulse: Pulse
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._pulse = pulse
        self._faults = FaultStore(settings.run_dir / "faults.json", settings.fault_keep_seconds)
        self._driver = GpuDriver(settings.library_dir, settings.nvml_timeout_seconds)
        changes = ChangeSignal()
        self._pods = SharingPods(
            client,
            changes,
            node=settings.node,
            resource=settings.share_resource,
            silence_seconds=settings.resync_seconds,
        )
        self._gpus = SharedGpus(self._parts())
        self._terminator = ClientTerminator(
            self._gpus, self._pods, changes, repeat_seconds=settings.check_seconds
        )

    def _parts(self) -> NodeParts:
        settings = self._settings
        return NodeParts(
            settings,
            self._driver,
            Processes(settings.proc_dir),
            self._faults,
            self._metrics,
            DaemonCgroup(settings.cgroup_dir, Path("/proc/self/cgroup")),
            self._pods.declared,
        )

    async def run(self) -> None:
        """Run until cancelled. Daemons with clients go on after the end."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._pulse.beat_until_cancelled())
            lock = await self._lock()
            try:
                await self._gpus.recover()
                settings = self._settings
                async with serving(settings.socket, self._gpus, self._faults):
                    loops.create_task(self._pods.run())
                    loops.create_task(self._terminator.run())
                    await self._check()
            finally:
                self._driver.close()
                os.close(lock)

    async def stop(self) -> None:
        """End the daemons that no client uses, if no pod of this node shares a GPU."""
        if self._pods.is_listed and not self._pods.running:
            await self._gpus.stop_unused()

    async def _check(self) -> None:
        while True:
            await self._gpus.check()
            self._metrics.set_pods(self._pods.running)
            self._pulse.ready = True
            await asyncio.sleep(self._settings.check_seconds)

    async def _lock(self) -> int:
        """Wait until no other process controls the daemons of this node."""
        folder = self._settings.run_dir
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not _locked(lock):
            _log.warning("another process has the lock %s", fields(folder=folder))
            while not _locked(lock):  # noqa: ASYNC110 - the lock is of another process
                await asyncio.sleep(_LOCK_SECONDS)
        return lock


def _locked(file: int) -> bool:
    """Lock a file, and return whether that was possible."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
