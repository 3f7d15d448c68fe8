"""What the parts of the agent have in common."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_deviceplugin.metrics import AgentMetrics
from gputopo_deviceplugin.settings import AgentSettings
from gputopo_kube.changes import ChangeSignal
from gputopo_kube.probes import Pulse

Loop = Callable[[], Coroutine[Any, Any, None]]
"""Runs until it is cancelled."""


@dataclass(frozen=True, slots=True)
class AgentContext:
    """What each part of the agent gets when it is built."""

    settings: AgentSettings
    metrics: AgentMetrics
    pulse: Pulse
    state: GpuState
    changes: ChangeSignal
