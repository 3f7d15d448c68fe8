"""Reads the policy of kubelet's topology manager, and decides whether kubelet gets NUMA nodes.

Each registration withdraws the NUMA nodes. They are reported again when the policy was read after
this registration, and kubelet has not registered the agent again meanwhile. So no kubelet with
another policy sees them.

With a policy other than ``none``, the scheduler must first know the policy, because kubelet then
takes GPUs by NUMA node. So kubelet gets the NUMA nodes some time after the GPUTopology has the
policy, when all pods that were placed before have their GPUs.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from gputopo.runtime.log import fields
from gputopo.topology.model import GpuUuid
from gputopo_deviceplugin.clock import loop_time
from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_deviceplugin.kubelet.numa_rule import (
    UNREGISTERED,
    TopologyPolicy,
    numa_to_report,
    topology_policy,
)
from gputopo_deviceplugin.kubelet.pod_resources import PodResourcesError
from gputopo_deviceplugin.kubelet.repeated_read import ReadWithBackoff
from gputopo_deviceplugin.kubelet.state import KubeletState
from gputopo_deviceplugin.settings import AgentSettings
from gputopo_kube.changes import ChangeSignal
from gputopo_kube.document import Document
from gputopo_kube.kubelet_config import KubeletConfigError, kubelet_endpoint, read_kubelet_config

_RESPONSE_SECONDS: Final = 5.0

_KNOWN_SECONDS: Final = 1.0
"""Time until all schedulers know what the GPUTopology says."""

_log = logging.getLogger(__name__)

ReadConfig = Callable[[], Awaitable[Mapping[str, Any]]]
"""Returns the fields of ``KubeletConfiguration``, or raises ``KubeletConfigError``."""


@dataclass(frozen=True, slots=True)
class KubeletCpus:
    """The CPUs of the node when kubelet started. Until it starts again, kubelet uses these.

    Attributes:
        allocatable: CPUs that containers can get exclusively.
        online: online CPUs of each NUMA node.
    """

    allocatable: frozenset[int] = frozenset()
    online: Mapping[int, frozenset[int]] = field(default_factory=dict)


ReadCpus = Callable[[], Awaitable[KubeletCpus]]
"""Returns the CPUs of the node, or raises ``PodResourcesError``."""


def config_reader(node: Callable[[], Document], settings: AgentSettings) -> ReadConfig:
    """Return a function that reads the configuration of the kubelet of the Node ``node()``."""

    async def read() -> Mapping[str, Any]:
        try:
            endpoint = kubelet_endpoint(node())
        except KubeletConfigError as error:
            raise KubeletConfigError(f"Node {settings.node}: {error}") from None
        return await read_kubelet_config(
            endpoint, settings.kubelet_credentials, timeout_seconds=_RESPONSE_SECONDS
        )

    return read


class _PolicyRead(NamedTuple):
    policy: TopologyPolicy
    cpus: KubeletCpus


class NumaReporter:
    """Decides after each registration with kubelet whether kubelet gets the NUMA nodes.

    Attributes:
        condition: whether kubelet gets the NUMA nodes, and why.
        aligned_by: kubelet's policy, if the choice of GPUs must follow it; else None.
    """

    def __init__(
        self,
        state: GpuState,
        kubelet: KubeletState,
        changes: ChangeSignal,
        read_config: ReadConfig,
        read_cpus: ReadCpus,
        *,
        any_policy: bool,
        retry_seconds: float,
    ) -> None:
        """Read the policy with ``read_config``, again after ``retry_seconds`` if that fails.

        Args:
            state: gets the NUMA nodes.
            kubelet: counts the registrations.
            changes: signals changes of both.
            read_config: reads kubelet's configuration.
            read_cpus: reads the CPUs of the node.
            any_policy: whether kubelet gets the NUMA nodes also if it takes GPUs by them.
            retry_seconds: pause after the first failed read.
        """
        self._state = state
        self._kubelet = kubelet
        self._changes = changes
        self._read_config = read_config
        self._read_cpus = read_cpus
        self._any_policy = any_policy
        self._reader = ReadWithBackoff(
            kubelet,
            self._read_policy,
            lambda found: found.policy.name is not None,
            initial=_PolicyRead(UNREGISTERED, KubeletCpus()),
            retry_seconds=retry_seconds,
        )
        self._published_at: float | None = None
        self._nodes: Mapping[GpuUuid, int] = {}
        self._aligned = False
        self._hidden: frozenset[GpuUuid] = frozenset()
        self.aligned_by: TopologyPolicy | None = None
        self.condition = numa_to_report({}, UNREGISTERED)[1]

    @property
    def cpus(self) -> KubeletCpus:
        """The CPUs of the node; empty if containers cannot get exclusive CPUs."""
        return self._reader.value.cpus

    async def run(self) -> None:
        """Decide at every change, until cancelled."""
        while True:
            seen = self._changes.count
            await self.update()
            try:
                async with asyncio.timeout_at(self._wake_at()):
                    await self._changes.wait_after(seen)
            except TimeoutError:
                continue

    def _wake_at(self) -> float | None:
        """Return the time of the next decision without a change; None if there is none."""
        retry_at = self._reader.retry_at if self._kubelet.registered else 0.0
        published_at = self._published_at or 0.0
        times = (retry_at, published_at if published_at > loop_time() else 0.0)
        return min((at for at in times if at), default=None)

    async def update(self) -> None:
        """Read the policy if it is unknown, and decide."""
        if self._kubelet.registered:
            await self._reader.update()
        current = self._is_current()
        hardware = self._state.known
        policy = self._reader.value.policy if current else UNREGISTERED
        topology = hardware.topology
        nodes, condition = numa_to_report(
            hardware.gpus,
            policy,
            any_policy=self._any_policy,
            host_nodes=len(topology.numa_nodes) if topology else 0,
        )
        aligned = bool(nodes) and policy.name != "none"
        if current:
            self._align(policy if aligned else None)
        ready = not aligned or (
            self._published_at is not None and loop_time() >= self._published_at
        )
        self._nodes, self._aligned = nodes if ready else {}, aligned
        self._report()
        if condition != self.condition:
            _log.info("NUMA nodes %s", fields(published=condition.holds, reason=condition.message))
            self.condition = condition
            self._changes.notify()

    def hide(self, gpus: frozenset[GpuUuid]) -> None:
        """Report no NUMA nodes of these GPUs to a kubelet that takes GPUs by NUMA node."""
        if gpus == self._hidden:
            return
        self._hidden = gpus
        # A kubelet that has registered the agent since the last update may have another policy.
        if self._is_current():
            self._report()

    def _is_current(self) -> bool:
        """Whether the policy that was last read is that of the kubelet that knows the agent."""
        return self._kubelet.registered and self._reader.registration == self._kubelet.registrations

    def _report(self) -> None:
        hidden = self._hidden if self._aligned else ()
        nodes = {gpu: node for gpu, node in self._nodes.items() if gpu not in hidden}
        self._state.report_numa(nodes, aligned=self._aligned)

    def confirm(self, *, stable: bool) -> None:
        """Record that the GPUTopology has the policy ``aligned_by``.

        Args:
            stable: whether all pods that are bound to the node have their GPUs.
        """
        if self.aligned_by is not None and self._published_at is None and stable:
            self._published_at = loop_time() + _KNOWN_SECONDS
            self._changes.notify()

    def _align(self, policy: TopologyPolicy | None) -> None:
        if policy != self.aligned_by:
            self.aligned_by, self._published_at = policy, None
            self._changes.notify()

    async def _read_policy(self) -> _PolicyRead:
        try:
            policy = topology_policy(await self._read_config())
            cpus = await self._read_cpus() if policy.exclusive_cpus else KubeletCpus()
        except (KubeletConfigError, PodResourcesError) as error:
            return _PolicyRead(TopologyPolicy(None, str(error)), KubeletCpus())
        return _PolicyRead(policy, cpus)
