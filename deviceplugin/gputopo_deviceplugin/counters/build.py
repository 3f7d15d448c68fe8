"""Builds the parts that read counters, from the settings of the agent."""

from gputopo_deviceplugin.counters.exporter import MAX_EXPORTER_BYTES
from gputopo_deviceplugin.counters.poller import CounterPoller
from gputopo_deviceplugin.counters.scrape import RESPONSE_SECONDS, ExporterScraper
from gputopo_deviceplugin.counters.session import CounterSession
from gputopo_deviceplugin.gpus.state import GpuState
from gputopo_deviceplugin.metrics import CounterMetrics
from gputopo_deviceplugin.settings import AgentSettings
from gputopo_kube.changes import ChangeSignal
from gputopo_kube.endpoint import EndpointClient


def create_poller(
    settings: AgentSettings, state: GpuState, metrics: CounterMetrics, changes: ChangeSignal
) -> CounterPoller | None:
    """Return the poller, or None if the agent must not read counters."""
    if settings.counters == "Off":
        return None
    client = EndpointClient(timeout_seconds=RESPONSE_SECONDS, max_bytes=MAX_EXPORTER_BYTES)
    return CounterPoller(
        state,
        CounterSession(settings.library_dir),
        ExporterScraper(client, settings.dcgm_exporter),
        metrics,
        changes,
        timeout_seconds=settings.nvml_timeout_seconds,
    )
