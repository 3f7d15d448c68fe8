"""Reads the policy of kubelet's topology manager, and reports NUMA nodes to kubelet if it is none.

Each registration withdraws the NUMA nodes. They are reported again when the policy was read after
this registration, and kubelet has not registered the agent again meanwhile. So no kubelet with
another policy sees them.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from gputopo.runtime.log import fields
from gputopo_deviceplugin.changes import ChangeSignal
from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_deviceplugin.kubelet.numa_rule import (
    UNREGISTERED,
    TopologyPolicy,
    numa_to_report,
    topology_policy,
)
from gputopo_deviceplugin.kubelet.state import KubeletState
from gputopo_deviceplugin.settings import AgentSettings
from gputopo_kube.document import Document
from gputopo_kube.kubelet_config import KubeletConfigError, kubelet_endpoint, read_kubelet_config

_MOST_PAUSES: Final = 64
"""The pause between two failed reads doubles up to this factor: kubelet logs failed handshakes."""

_RESPONSE_SECONDS: Final = 5.0

_log = logging.getLogger(__name__)

ReadConfig = Callable[[], Awaitable[Mapping[str, Any]]]
"""Returns the fields of ``KubeletConfiguration``, or raises ``KubeletConfigError``."""


def config_reader(node: Callable[[], Document], settings: AgentSettings) -> ReadConfig:
    """Return a function that reads the configuration of the kubelet of the Node ``node()``."""

    async def read() -> Mapping[str, Any]:
        endpoint = kubelet_endpoint(node())
        if endpoint is None:
            raise KubeletConfigError("the Node has no InternalIP, or not the port of kubelet")
        return await read_kubelet_config(
            endpoint, settings.kubelet_credentials, timeout_seconds=_RESPONSE_SECONDS
        )

    return read


class NumaReporter:
    """Decides after each registration with kubelet whether kubelet gets the NUMA nodes.

    Attributes:
        condition: whether kubelet gets the NUMA nodes, and why.
    """

    def __init__(
        self,
        state: GpuState,
        kubelet: KubeletState,
        changes: ChangeSignal,
        read_config: ReadConfig,
        *,
        retry_seconds: float,
    ) -> None:
        """Read the policy with ``read_config``, again after ``retry_seconds`` if that fails."""
        self._state = state
        self._kubelet = kubelet
        self._changes = changes
        self._read_config = read_config
        self._retry_seconds = retry_seconds
        self._registration = 0
        self._policy = UNREGISTERED
        self._failures = 0
        self._retry_at = 0.0
        self.condition = numa_to_report({}, UNREGISTERED)[1]

    async def run(self) -> None:
        """Decide at every change, until cancelled."""
        while True:
            seen = self._changes.count
            await self.update()
            try:
                async with asyncio.timeout_at(self._retry_at or None):
                    await self._changes.wait_after(seen)
            except TimeoutError:
                continue

    async def update(self) -> None:
        """Read the policy if it is unknown, and decide."""
        if self._kubelet.registered:
            await self._read_policy()
        else:
            self._retry_at = 0.0  # the next registration is a new attempt
        current = self._kubelet.registered and self._registration == self._kubelet.registrations
        hardware = self._state.hardware
        gpus = hardware.gpus if hardware else {}
        nodes, condition = numa_to_report(gpus, self._policy if current else UNREGISTERED)
        self._state.report_numa(nodes)
        if condition != self.condition:
            _log.info("NUMA nodes %s", fields(published=condition.holds, reason=condition.message))
            self.condition = condition
            self._changes.notify()

    async def _read_policy(self) -> None:
        """Read the policy once for each registration, and again later if it is unknown."""
        registration = self._kubelet.registrations
        if self._registration != registration:
            self._failures, self._retry_at = 0, 0.0
        elif self._policy.name is not None or _now() < self._retry_at:
            return
        try:
            policy = topology_policy(await self._read_config())
        except KubeletConfigError as error:
            policy = TopologyPolicy(None, str(error))
        self._registration, self._policy = registration, policy
        self._plan_retry()

    def _plan_retry(self) -> None:
        self._retry_at = 0.0
        if self._policy.name is None:
            pause = self._retry_seconds * min(2**self._failures, _MOST_PAUSES)
            self._retry_at = _now() + pause
            self._failures += 1


def _now() -> float:
    return asyncio.get_running_loop().time()
