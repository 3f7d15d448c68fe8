"""The states of a shared GPU, and what all shared GPUs of a node use."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from gputopo_mps.cgroups import DaemonCgroup
from gputopo_mps.faults import FaultStore
from gputopo_mps.metrics import MpsMetrics
from gputopo_mps.nvml import GpuDriver
from gputopo_mps.processes import Processes
from gputopo_mps.settings import MpsSettings


class SharedGpuState(StrEnum):
    """State of a shared GPU. Shares may be given only while it is Ready."""

    STARTING = "Starting"
    READY = "Ready"
    FAULT = "Fault"
    STOPPING = "Stopping"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class NodeParts:
    """What the shared GPUs of a node have in common.

    Attributes:
        declared: returns the pods of a GPU, and the GPU memory that each declares.
    """

    settings: MpsSettings
    driver: GpuDriver
    processes: Processes
    faults: FaultStore
    metrics: MpsMetrics
    cgroup: DaemonCgroup
    declared: Callable[[str], Mapping[str, int | None]]
