"""All causes by name, with the alerts that they must fire."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from monitortest import component_causes, node_causes, sharing_causes
from monitortest.site import Site


@dataclass(frozen=True, slots=True)
class Cause:
    """One fault.

    Attributes:
        carry_out: causes the fault for the time of a block.
        alerts: the alerts that it must fire.
        of_node: whether the faults of other nodes fire the same alerts, with another label
            ``node``. For alerts about the operator and the extender, this label is the node on
            which their pod runs, which is not the node of the fault.
    """

    carry_out: Callable[[Site], AbstractContextManager[None]]
    alerts: tuple[str, ...]
    of_node: bool = False

    @property
    def summary(self) -> str:
        """The first line of the fault's docstring."""
        text = self.carry_out.__doc__ or ""
        return text.strip().splitlines()[0].rstrip(".")


CAUSES: Final = {
    "gpu-unhealthy": Cause(node_causes.gpu_unhealthy, ("GputopoGpuUnhealthy",), of_node=True),
    "gpu-shared": Cause(
        node_causes.gpu_shared, ("GputopoGpuShared", "GputopoGpusDiffer"), of_node=True
    ),
    "deleted-pods": Cause(
        node_causes.gpus_of_deleted_pods, ("GputopoGpusOfDeletedPods",), of_node=True
    ),
    "rejected": Cause(
        node_causes.allocations_rejected, ("GputopoAllocationsRejected",), of_node=True
    ),
    "unreadable": Cause(node_causes.node_unusable, ("GputopoNodeUnusable",), of_node=True),
    "not-ready": Cause(node_causes.agent_not_ready, ("GputopoAgentNotReady",), of_node=True),
    "disconnected": Cause(
        node_causes.agent_disconnected, ("GputopoAgentDisconnected",), of_node=True
    ),
    "agent-writes": Cause(
        node_causes.agent_without_rights, ("GputopoAgentFailures",), of_node=True
    ),
    "no-agent": Cause(node_causes.agent_missing, ("GputopoAgentMissing",), of_node=True),
    "no-mps": Cause(sharing_causes.mps_missing, ("GputopoGpusNotShareable",), of_node=True),
    "mps-failed": Cause(
        sharing_causes.mps_failed, ("GputopoMpsFailed", "GputopoMpsRestarted"), of_node=True
    ),
    "waiting": Cause(component_causes.pods_waiting, ("GputopoPodsWaiting",)),
    "slow-links": Cause(component_causes.bandwidth_lost, ("GputopoBandwidthLost",)),
    "quota": Cause(component_causes.resizes_rejected, ("GputopoResizesRejected",)),
    "queue": Cause(component_causes.queue_waiting, ("GputopoQueueWaiting",)),
    "operator-errors": Cause(component_causes.operator_without_rights, ("GputopoOperatorErrors",)),
    "no-operator": Cause(component_causes.operator_down, ("GputopoOperatorDown",)),
    "no-leader": Cause(component_causes.no_leader, ("GputopoNoLeader",)),
    "one-extender": Cause(
        component_causes.extender_replica_missing, ("GputopoExtenderReplicaMissing",)
    ),
    "no-extender": Cause(component_causes.extender_down, ("GputopoExtenderDown",)),
    "stale": Cause(
        component_causes.extender_without_rights,
        ("GputopoExtenderStale", "GputopoExtenderErrors"),
    ),
}
