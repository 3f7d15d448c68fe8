"""The agent reads counters beside everything else, and shows what it can read."""

import threading
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from gputopo_deviceplugin.agent import Agent
from gputopo_deviceplugin.counters.poller import CounterPoller
from support.agent.counters import replace
from support.agent.world import AgentWorld, agent_world

MIB = 2**20
NO_RESPONSE = "NVML: no response to a read of counters since "


def status(world: AgentWorld, kind: str) -> dict[str, Any]:
    """Return the published status of a kind of counter, empty without one."""
    found = [each for each in world.status.get("counters", []) if each["kind"] == kind]
    return dict(found[0]) if found else {}


def metric(world: AgentWorld, name: str, **labels: str) -> float:
    return world.metrics.registry.get_sample_value(name, labels) or 0.0


def reads(world: AgentWorld, result: str = "read") -> float:
    return metric(world, "gputopo_agent_counter_reads_total", result=result)


def is_used(world: AgentWorld, gpu: int) -> bool:
    return "pod" in world.observed(gpu)


def poller(agent: Agent) -> CounterPoller:
    found = agent.measure.counters
    assert found is not None
    return found


async def test_the_status_shows_what_can_be_read(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        await world.until(lambda: status(world, "NVLink").get("gpus") == 8)
        assert status(world, "NVLink") == {
            "kind": "NVLink",
            "source": "NVLinkFields",
            "gpus": 8,
            "message": "",
        }
        assert status(world, "PCIe")["source"] == "None"
        load = status(world, "Load")
        assert (load["source"], load["gpus"]) == ("Utilization", 8)
        assert load["message"].startswith("DCGM: no exporter is configured (devicePlugin.counters.")
        assert "GPM: this GPU does not support GPM (8 GPUs)" in load["message"]


async def test_metrics_show_the_counters_while_a_container_is_measured(
    short_directory: Path, library_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", "")
    async with agent_world(short_directory, library_dir, "dgx-h100") as world, world.agent():
        rates = [f"nvlink 0 {link} {MIB} 0" for link in range(18)]
        replace(short_directory / "counters.conf", [*rates, "occupancy 0 250", "dram 0 500"])
        await world.served()
        await world.run("a", {"main": [0, 1]})
        gpu = world.uuids[0]
        bytes_sent = "gputopo_agent_nvlink_bytes_total"
        await world.until(lambda: metric(world, bytes_sent, gpu=gpu, direction="sent") > MIB)
        assert metric(world, bytes_sent, gpu=gpu, direction="received") == 0
        gpm = {"gpu": gpu, "source": "GPM"}
        await world.until(lambda: metric(world, "gputopo_agent_gpu_occupancy_ratio", **gpm) > 0)
        assert metric(world, "gputopo_agent_gpu_occupancy_ratio", **gpm) == pytest.approx(0.25)
        assert metric(world, "gputopo_agent_gpu_dram_active_ratio", **gpm) == pytest.approx(0.5)
        assert reads(world) >= 2
        world.break_gpus("counter-fault 0 gpm 4")
        await world.until(lambda: status(world, "Load").get("message"))
        found = status(world, "Load")
        assert found["message"].startswith("DCGM: no exporter is configured")
        assert "GPM: NVML: Insufficient Permissions (1 GPU)" in found["message"]
        assert (found["source"], found["gpus"]) == ("GPM", 8)


@pytest.fixture
async def patient(
    short_directory: Path, library_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[AgentWorld]:
    """Return a node on which a busy machine does not look like a call that hangs."""
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", "")
    async with agent_world(short_directory, library_dir, nvml_timeout_seconds=5.0) as world:
        yield world


async def test_a_read_that_hangs_delays_nothing(patient: AgentWorld) -> None:
    world = patient
    async with world.agent() as agent:
        await world.served()
        await world.run("a", {"main": [0]})
        await world.until(lambda: reads(world) >= 2)
        world.break_gpus("counter-hang")
        await world.until(lambda: status(world, "NVLink").get("message", "")[:10] == "NVML: no r")
        assert status(world, "NVLink")["message"].startswith(NO_RESPONSE)
        assert {each["gpus"] for each in world.status["counters"]} == {0}
        poller(agent).take()
        # The read still hangs, and kubelet admits pods, and health and status are current.
        for index in range(1, 5):
            await world.run(f"pod-{index}", {"main": [index]})
            await world.until(partial(is_used, world, index))
        assert [each.name for each in threading.enumerate()].count("nvml-counters") == 1
        assert world.pulse.failure is None
        assert set(world.kubelet.devices.values()) == {"Healthy"}
        assert poller(agent).take() == []
        assert reads(world, "hanging") >= 1
        before = reads(world)
        world.break_gpus()
        await world.until(lambda: status(world, "NVLink").get("gpus") == 8)
        await world.until(lambda: reads(world) > before + 1)


async def test_an_xid_is_noticed_while_a_read_of_counters_hangs(patient: AgentWorld) -> None:
    world = patient
    async with world.agent():
        await world.served()
        await world.run("a", {"main": [0]})
        world.break_gpus("counter-hang")
        await world.until(lambda: reads(world, "hanging") >= 1)
        world.break_gpus("counter-hang", "xid 3 79")
        await world.until(lambda: "XID 79" in world.observed(3).get("reason", ""))
        world.break_gpus()


async def test_an_agent_ends_while_a_read_of_counters_hangs(patient: AgentWorld) -> None:
    world = patient
    async with world.agent():
        await world.served()
        await world.run("a", {"main": [0]})
        await world.until(lambda: reads(world))
        world.break_gpus("counter-hang")
        await world.until(lambda: reads(world, "hanging") >= 1)
    world.break_gpus()


async def test_nvml_that_fails_is_the_reason_and_can_be_opened_again(
    patient: AgentWorld,
) -> None:
    world = patient
    async with world.agent() as agent:
        await world.served()
        await world.until(lambda: status(world, "NVLink").get("gpus") == 8)
        world.break_gpus("hang")
        await world.until(lambda: status(world, "NVLink").get("gpus") == 0)
        assert "NVML does not respond" in status(world, "NVLink")["message"]
        world.break_gpus()
        await world.served()
        await world.run("a", {"main": [0]})
        await world.until(lambda: status(world, "NVLink").get("gpus") == 8)
        assert poller(agent)._session.is_open


async def test_counters_can_be_switched_off(
    short_directory: Path, library_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", "")
    async with (
        agent_world(short_directory, library_dir, counters="Off") as world,
        world.agent() as agent,
    ):
        await world.served()
        await world.run("a", {"main": [0]})
        assert agent.measure.counters is None
        assert world.status.get("counters", []) == []
        assert reads(world) == 0


async def test_a_node_without_gpus_reads_no_counters(
    short_directory: Path, library_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_NVML_TOPOLOGY", "")
    async with agent_world(short_directory, library_dir) as world:
        world.conf.write_text("driver 550\n")
        async with world.agent() as agent:
            await world.until(lambda: world.pulse.ready)
            assert poller(agent).status == []
            assert reads(world) == 0
