"""Collects what the status of the GPUTopology and the metrics show, from the parts of the agent."""

from gputopo.api.v1alpha1 import SharingCapacity
from gputopo_deviceplugin.admit.build import AdmitPart
from gputopo_deviceplugin.apiserver.build import ApiPart
from gputopo_deviceplugin.context import AgentContext
from gputopo_deviceplugin.gpus.hardware import NodeHardware
from gputopo_deviceplugin.measure.build import MeasurePart
from gputopo_deviceplugin.nri.connector import NriConnector
from gputopo_deviceplugin.report.node_conditions import mps_condition, ready_condition
from gputopo_deviceplugin.report.numa_alignment import NumaAlignment
from gputopo_deviceplugin.report.observer import AllocationObserver
from gputopo_deviceplugin.report.sized_capacity import CapacityReport, sized_capacity
from gputopo_deviceplugin.report.status import NodeObservation, observed_gpus


class StatusCollector:
    """Collects from the parts of the agent what is known now."""

    def __init__(
        self,
        context: AgentContext,
        api: ApiPart,
        admit: AdmitPart,
        measure: MeasurePart,
        nri: NriConnector | None,
        observer: AllocationObserver,
        alignment: NumaAlignment | None,
    ) -> None:
        self._resource = context.settings.resource
        self._state = context.state
        self._node, self._pods = api.node, api.pods
        self._kubelet, self._tracker, self._offer = admit.kubelet, admit.tracker, admit.offer
        self._measurer, self._counters = measure.measurer, measure.counters
        self._numa, self._nri = admit.numa, nri
        self._observer = observer
        self._alignment = alignment
        self._capacity = CapacityReport(context.settings.measure_publish_seconds)

    def collect(self, hardware: NodeHardware) -> NodeObservation:
        """Return what the agent knows of its node; hide NUMA nodes of GPUs in use before."""
        alignment = self._alignment.update(hardware) if self._alignment else None
        users, faults = self._tracker.all_users(), self._state.mps_faults
        most = self._state.shares_per_gpu
        capacity = sized_capacity(self._node.document, self._pods.values(), self._resource)
        return NodeObservation(
            hardware=hardware,
            ready=ready_condition(
                hardware,
                self._offer.withheld,
                registered=self._kubelet.registered,
                watched=self._kubelet.watched,
            ),
            gpus=observed_gpus(hardware.health, users, faults),
            differing=[each.message for each in self._observer.differing],
            pods_version=self._observer.pods_version,
            processes_visible=self._tracker.processes_visible,
            numa=self._numa.condition if self._numa else None,
            cpus_bound=self._nri.condition if self._nri else None,
            alignment=alignment,
            measured=self._measurer.published,
            counters=self._counters.status if self._counters else None,
            sharing=SharingCapacity(most_pods=most) if most else None,
            mps=mps_condition(faults) if most else None,
            sized_capacity=self._capacity.update(capacity),
        )

    def gauges(self, observation: NodeObservation) -> dict[str, float]:
        """Return the values of ``NODE_GAUGES``."""
        gpus, numa, bound = observation.gpus, observation.numa, observation.cpus_bound
        shares = [len(gpu.shares or ()) for gpu in gpus]
        return {
            "serving": observation.ready.holds,
            "differing_containers": len(observation.differing),
            "gpus_of_deleted_pods": sum(gpu.pod_deleted is True for gpu in gpus),
            "shares_in_use": sum(shares),
            "shared_gpus": sum(map(bool, shares)),
            "unshareable_gpus": sum(gpu.sharing_fault is not None for gpu in gpus),
            "process_tracking": observation.processes_visible,
            "numa_published": numa is not None and numa.holds,
            "nri_connected": bound is not None and bound.holds,
            "unbound_containers": self._nri.unbound if self._nri else 0,
        }
