"""What the parts of the agent have in common."""

from dataclasses import dataclass

from gputopo_deviceplugin.changes import ChangeSignal
from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_deviceplugin.metrics import AgentMetrics
from gputopo_deviceplugin.settings import AgentSettings
from gputopo_kube.probes import Pulse


@dataclass(frozen=True, slots=True)
class AgentContext:
    """What each part of the agent gets when it is built."""

    settings: AgentSettings
    metrics: AgentMetrics
    pulse: Pulse
    state: GpuState
    changes: ChangeSignal
