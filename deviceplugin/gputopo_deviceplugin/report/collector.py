"""Collects what the status of the GPUTopology and the metrics show, from the parts of the agent."""

from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class StatusCollector:
    """Collects from the parts of the agent what is known now."""

    context: AgentContext
    api: ApiPart
    admit: AdmitPart
    measure: MeasurePart
    nri: NriConnector | None
    observer: AllocationObserver
    alignment: NumaAlignment | None
    capacity: CapacityReport

    def collect(self, hardware: NodeHardware) -> NodeObservation:
        """Return what the agent knows of its node; hide NUMA nodes of GPUs in use before."""
        alignment = self.alignment.update(hardware) if self.alignment else None
        api, admit, measure, state = self.api, self.admit, self.measure, self.context.state
        users, faults, most = admit.tracker.all_users(), state.mps_faults, state.shares_per_gpu
        resource = self.context.settings.resource
        capacity = sized_capacity(api.node.document, api.pods.values(), resource)
        return NodeObservation(
            hardware=hardware,
            ready=ready_condition(
                hardware,
                admit.offer.withheld,
                registered=admit.kubelet.registered,
                watched=admit.kubelet.watched,
            ),
            gpus=observed_gpus(hardware.health, users, faults),
            differing=[each.message for each in self.observer.differing],
            pods_version=self.observer.pods_version,
            processes_visible=admit.tracker.processes_visible,
            numa=admit.numa.condition if admit.numa else None,
            cpus_bound=self.nri.condition if self.nri else None,
            alignment=alignment,
            measured=measure.measurer.published,
            counters=measure.counters.status if measure.counters else None,
            sharing=SharingCapacity(most_pods=most) if most else None,
            mps=mps_condition(faults) if most else None,
            sized_capacity=self.capacity.update(capacity),
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
            "unbound_containers": self.nri.unbound if self.nri else 0,
        }
