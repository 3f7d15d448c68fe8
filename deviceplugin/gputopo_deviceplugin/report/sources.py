"""The parts of the agent from which the status of the GPUTopology is made."""

from dataclasses import dataclass

from gputopo_deviceplugin.admit.numa_report import NumaReporter
from gputopo_deviceplugin.admit.offer import DeviceOffer
from gputopo_deviceplugin.admit.tracker import UsageTracker
from gputopo_deviceplugin.apiserver.connection import ApiConnection
from gputopo_deviceplugin.apiserver.node_watch import NodeWatch
from gputopo_deviceplugin.counters.poller import CounterPoller
from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_deviceplugin.kubelet.state import KubeletState
from gputopo_deviceplugin.measure.measurer import Measurer
from gputopo_deviceplugin.nri.connector import NriConnector
from gputopo_deviceplugin.report.observer import AllocationObserver


@dataclass(frozen=True, slots=True)
class ReportSources:
    """The parts of the agent from which the reporter takes its data."""

    state: GpuState
    kubelet: KubeletState
    connection: ApiConnection
    node: NodeWatch
    tracker: UsageTracker
    observer: AllocationObserver
    offer: DeviceOffer
    measurer: Measurer
    numa: NumaReporter | None
    nri: NriConnector | None
    counters: CounterPoller | None = None
