"""Builds the part that decides which GPUs kubelet may give to containers."""

from functools import partial

from gputopo_deviceplugin.admit.cgroups import Cgroups
from gputopo_deviceplugin.admit.lock import AdmissionLock
from gputopo_deviceplugin.admit.numa_report import KubeletCpus, NumaReporter, config_reader
from gputopo_deviceplugin.admit.offer import DeviceOffer
from gputopo_deviceplugin.admit.tracker import UsageTracker
from gputopo_deviceplugin.apiserver.build import ApiPart
from gputopo_deviceplugin.context import AgentContext, Loop
from gputopo_deviceplugin.gpus.numa import read_online_cpus
from gputopo_deviceplugin.kubelet.pod_resources import PodResourcesClient
from gputopo_deviceplugin.kubelet.state import KubeletState
from gputopo_deviceplugin.statefile import StateFile


class AdmitPart:
    """The users of GPUs, and what kubelet is offered.

    Attributes:
        kubelet: whether kubelet knows the agent and its GPUs.
        pod_resources: reads kubelet's list of pods.
        lock: delays such reads while kubelet admits a container.
        tracker: the users of GPUs.
        offer: decides which GPUs kubelet may give to new containers.
        read_config: reads kubelet's configuration.
        numa: decides whether kubelet gets NUMA nodes; None if the settings forbid it.
        loops: keep these parts up to date.
    """

    loops: list[Loop]

    def __init__(self, context: AgentContext, api: ApiPart) -> None:
        settings = context.settings
        self.kubelet = KubeletState(context.changes)
        self.pod_resources = PodResourcesClient(settings.pod_resources_socket, settings.resource)
        self.lock = AdmissionLock()
        cgroups, file = Cgroups(settings.cgroup_dir), StateFile(settings.state_dir / "usage.json")
        self.tracker = UsageTracker(api.pods, cgroups, file, context.metrics.record_failure)
        self.offer = DeviceOffer(
            context.state, self.kubelet, self.tracker, api.connection, api.node
        )
        self.read_config = config_reader(lambda: api.node.document, settings)
        self.numa = None if settings.publish_numa == "Never" else self._numa_reporter(context)
        self.loops = [
            partial(self.offer.run, context.changes),
            partial(self.tracker.watch_processes, context.changes),
            *([self.numa.run] if self.numa else []),
        ]

    def _numa_reporter(self, context: AgentContext) -> NumaReporter:
        settings, client = context.settings, self.pod_resources

        async def read_cpus() -> KubeletCpus:
            allocatable = await client.allocatable_cpus(settings.api_timeout_seconds)
            return KubeletCpus(allocatable, read_online_cpus(settings.system_dir))

        return NumaReporter(
            context.state,
            self.kubelet,
            context.changes,
            self.read_config,
            read_cpus,
            any_policy=settings.publish_numa == "AnyPolicy",
            retry_seconds=settings.resync_seconds,
        )
