"""The metrics of the agent before anything has happened."""

import re
from pathlib import Path

from gputopo_deviceplugin.metrics import COUNTER_READS, AgentMetrics

PACKAGE = Path(__file__).parents[3] / "deviceplugin" / "gputopo_deviceplugin"


def test_every_counted_reason_is_0_at_the_start_so_that_its_first_increase_is_seen() -> None:
    shown = AgentMetrics().registry.get_sample_value
    texts = [path.read_text() for path in PACKAGE.rglob("*.py")]
    reasons = {each for text in texts for each in re.findall(r'dropped_steps\("(\w+)"', text)}
    assert len(reasons) == 4
    for reason in {*reasons, "Restart", "ClockJump", "Stall", "Implausible", "SeveralSenders"}:
        assert shown("gputopo_agent_dropped_steps_total", {"reason": reason}) == 0, reason
    calls = r'(?:record_failure|count_failure|on_failure)\("(\w+)"'
    operations = {each for text in texts for each in re.findall(calls, text)}
    assert len(operations) == 10
    for operation in operations:
        assert shown("gputopo_agent_failures_total", {"of": operation}) == 0
    for result in ("set", "repaired", "released"):
        assert shown("gputopo_agent_cpusets_total", {"result": result}) == 0
    for result in COUNTER_READS:
        assert shown("gputopo_agent_counter_reads_total", {"result": result}) == 0
    for result in ("allocated", "rejected"):
        assert shown("gputopo_agent_allocations_total", {"result": result}) == 0


def test_shares_and_gpus_without_mps_are_shown() -> None:
    metrics = AgentMetrics()
    metrics.set_node({}, shares_in_use=3, shared_gpus=2, unshareable_gpus=1)
    names = ("shares_in_use", "shared_gpus", "unshareable_gpus")
    shown = [metrics.registry.get_sample_value(f"gputopo_agent_{name}") for name in names]
    assert shown == [3, 2, 1]


def test_the_load_of_a_gpu_that_is_no_longer_known_is_not_shown() -> None:
    metrics = AgentMetrics()
    names = "gputopo_agent_gpu_occupancy_ratio", "gputopo_agent_gpu_dram_active_ratio"

    def shown(source: str) -> list[float | None]:
        labels = {"gpu": "GPU-0", "source": source}
        return [metrics.registry.get_sample_value(name, labels) for name in names]

    metrics.counters.set_gpu_loads({("GPU-0", "GPM"): (0.25, 0.5)})
    assert shown("GPM") == [0.25, 0.5]
    metrics.counters.set_gpu_loads({("GPU-0", "GPM"): (0.75, None)})
    assert shown("GPM") == [0.75, None]
    metrics.counters.set_gpu_loads({("GPU-0", "Utilization"): (1, None)})
    assert shown("GPM") == [None, None]
    assert shown("Utilization") == [1, None]
    metrics.counters.set_gpu_loads({})
    assert shown("Utilization") == [None, None]
