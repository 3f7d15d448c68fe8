"""A GPU is in use until no process of its last pod runs, even after the pod's deletion."""

import asyncio
import shutil
import time
from collections.abc import Callable

import pytest

from support.agent.world import NODE, AgentWorld
from support.api.store import NODES, PODS, TOPOLOGIES
from support.kubelet.device_manager import AdmissionRejectedError

SOON_SECONDS = 30.0
"""Longest time after the end of the last process until its GPUs are published as free."""


async def run_with_processes(world: AgentWorld, name: str, gpus: list[int]) -> None:
    """Run a pod whose status the agent has published."""
    await world.run(name, {"main": gpus})
    world.start_processes(f"uid-{name}")
    await world.set_phase(name, "Running")
    await world.until(lambda: all("podUID" in world.observed(index) for index in gpus))


def version_of_newest_change(world: AgentWorld) -> int:
    return world.api.version


def version(world: AgentWorld) -> int:
    return int(world.status.get("observedPodsVersion") or 0)


def deleted(world: AgentWorld) -> dict[int, str]:
    """Return by GPU the UID of each deleted pod that is published as its user."""
    gpus = world.status.get("gpus") or []
    return {index: gpu["podUID"] for index, gpu in enumerate(gpus) if gpu.get("podDeleted")}


async def rejected(world: AgentWorld, name: str, gpus: list[int]) -> str:
    with pytest.raises(AdmissionRejectedError) as messages:
        await world.run(name, {"main": gpus})
    return str(messages.value)


async def test_gpus_of_a_pod_deleted_by_force_are_in_use_until_its_last_process_ends(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        await run_with_processes(world, "a", [1, 2])
        await world.force_delete("a")
        deletion = version_of_newest_change(world)
        await world.until(lambda: deleted(world) == {1: "uid-a", 2: "uid-a"})
        assert version(world) >= deletion
        assert world.observed(1) == {
            "uuid": world.uuids[1],
            "healthy": True,
            "podUID": "uid-a",
            "namespace": "default",
            "pod": "a",
            "container": "main",
            "podDeleted": True,
        }
        metric = "gputopo_agent_gpus_of_deleted_pods"
        assert world.metrics.registry.get_sample_value(metric) == 2
        assert await rejected(world, "b", [2]) == (
            f"pod default/b: {world.uuids[2]} is in use by a process of deleted pod default/a"
        )
        await world.run("c", {"main": [3]})
        world.end_processes("uid-a")
        start = time.monotonic()
        await world.until(lambda: "pod" not in world.observed(1))
        assert time.monotonic() - start < SOON_SECONDS
        given = await world.run("d", {"main": [1, 2]})
    assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == f"{world.uuids[1]},{world.uuids[2]}"
    assert world.metrics.registry.get_sample_value(metric) == 0


async def test_a_process_that_has_just_ended_blocks_no_pod(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        await run_with_processes(world, "a", [1])
        await world.force_delete("a")
        await world.until(lambda: deleted(world))
        world.end_processes("uid-a")  # and this is not published yet
        given = await world.run("b", {"main": [1]})
    assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == world.uuids[1]


async def test_a_deletion_that_the_watch_has_not_shown_yet_frees_no_gpu(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        await run_with_processes(world, "a", [1])
        world.api.mute = True
        await world.force_delete("a")
        assert "in use by a process of deleted pod default/a" in await rejected(world, "b", [1])


@pytest.mark.parametrize("restart", ["agent", "node object", "agent and node object", "kubelet"])
async def test_processes_of_a_deleted_pod_outlive_restarts(world: AgentWorld, restart: str) -> None:
    async with world.agent():
        await world.served()
        await run_with_processes(world, "a", [5])
        if restart == "kubelet":
            await world.force_delete("a")
            await world.kubelet.stop()
            await world.kubelet.start()
            await world.served()
            await world.until(lambda: deleted(world) == {5: "uid-a"})
        elif restart == "node object":
            statuses = await _recreate_node(world)
            await world.until(lambda: deleted(world) == {5: "uid-a"})
            assert all(status[5].get("podUID") == "uid-a" for status in statuses())
    if "agent" in restart:
        await world.force_delete("a")
        statuses = statuses_from_now(world)
        if restart == "agent and node object":
            await _recreate_node(world)
        else:
            world.forget_status()
    async with world.agent():
        await world.until(lambda: deleted(world) == {5: "uid-a"})
        await world.served()
        if "agent" in restart:
            assert statuses()
            assert all(gpus[5].get("podUID") == "uid-a" for gpus in statuses())
        assert "of deleted pod default/a" in await rejected(world, "b", [5])
        world.end_processes("uid-a")
        await world.until(lambda: not deleted(world))
        given = await world.run("c", {"main": [5]})
    assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == world.uuids[5]


def statuses_from_now(world: AgentWorld) -> Callable[[], list[list[dict[str, object]]]]:
    """Return a function that returns the GPUs of every status written since this call."""
    since = world.api.version

    def statuses() -> list[list[dict[str, object]]]:
        changes = world.api.changes(TOPOLOGIES, since)
        written = [change.document for change in changes if change.type != "DELETED"]
        return [document["status"]["gpus"] for document in written if document.get("status")]

    return statuses


async def _recreate_node(world: AgentWorld) -> Callable[[], list[list[dict[str, object]]]]:
    """Delete the Node, with it its GPUTopology and, by PodGC, its pods; kubelet makes a new one."""
    statuses = statuses_from_now(world)
    world.api.delete(NODES, NODE, cascade=False)
    if world.api.get(PODS, "a"):
        await world.force_delete("a")
    world.api.delete(TOPOLOGIES, NODE)
    world.api.put(NODES, {"kind": "Node", "metadata": {"name": "n1", "uid": "uid-later"}})
    return statuses


async def test_a_pod_that_podgc_failed_uses_its_gpus_until_its_processes_end(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        await run_with_processes(world, "a", [4])
        await world.set_phase("a", "Failed")
        failure = version_of_newest_change(world)
        await world.until(lambda: deleted(world) == {4: "uid-a"})
        assert version(world) >= failure
        world.kubelet.end(("default", "a"))
        assert "of ended pod default/a" in await rejected(world, "b", [4])
        world.end_processes("uid-a")
        await world.until(lambda: "pod" not in world.observed(4))


async def test_an_ended_pod_that_kubelet_still_lists_uses_no_gpu(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        await world.run("a", {"main": [4]})  # kubelets before 1.34 continue to list it
        await world.until(lambda: "pod" in world.observed(4))
        await world.set_phase("a", "Succeeded")
        await world.until(lambda: "pod" not in world.observed(4))


async def test_a_pod_of_a_statefulset_does_not_share_gpus_with_its_predecessor(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        await run_with_processes(world, "set-0", [1])
        await world.force_delete("set-0")
        await world.place("set-0", {"main": [1]}, uid="uid-second")
        with pytest.raises(AdmissionRejectedError, match="of deleted pod default/set-0"):
            await world.kubelet.admit(("default", "set-0"), {"main": 1})
        await world.force_delete("set-0")
        await world.place("set-0", {"main": [2]}, uid="uid-third")
        await world.kubelet.admit(("default", "set-0"), {"main": 1})
        await world.until(lambda: world.observed(2).get("podUID") == "uid-third")
        assert deleted(world) == {1: "uid-set-0"}
        assert world.events("GPUsDiffer") == []
        world.end_processes("uid-set-0")
        await world.until(lambda: "pod" not in world.observed(1))
        assert world.observed(2)["podUID"] == "uid-third"


async def test_restarts_of_containers_and_init_containers_block_no_pod(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        await run_with_processes(world, "a", [1, 2])
        world.kubelet.end(("default", "a"))  # kubelet lost its record of a running container
        given = await world.kubelet.admit(("default", "a"), {"main": 2})
    assert given["main"].envs["CUDA_VISIBLE_DEVICES"] == f"{world.uuids[1]},{world.uuids[2]}"


async def test_the_published_version_is_that_of_the_last_end_without_other_writes(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        await run_with_processes(world, "a", [1])
        await world.quiet()
        before = world.status
        assert version(world) > 0
        writes = len(world.api.writes)
        for phase in ("Pending", "Running") * 5:
            await world.set_phase("a", phase)
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        assert (len(world.api.writes), world.status) == (writes, before)
        await world.place("never-started", {"main": [2]})
        world.api.delete(PODS, "never-started")
        deletion = version_of_newest_change(world)
        await world.until(lambda: version(world) >= deletion)
        assert len(world.api.writes) == writes + 1


async def test_without_kubelets_cgroups_gpus_of_deleted_pods_are_free_at_once(
    world: AgentWorld, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(world.cgroups)
    async with world.agent():
        await world.served()
        await world.run("a", {"main": [1]})
        await world.until(lambda: "pod" in world.observed(1))
        await world.force_delete("a")
        deletion = version_of_newest_change(world)
        await world.until(lambda: version(world) >= deletion)
        assert "pod" not in world.observed(1)
        assert world.condition("ProcessesTracked")["status"] == "False"
        metric = "gputopo_agent_process_tracking"
        assert world.metrics.registry.get_sample_value(metric) == 0
        await world.run("b", {"main": [1]})
    assert len([text for text in caplog.messages if "cgroups" in text]) == 1


async def test_a_state_folder_that_cannot_be_written_rejects_no_pod(world: AgentWorld) -> None:
    world.settings.state_dir.write_text("not a folder")
    async with world.agent():
        await world.served()
        await run_with_processes(world, "a", [1])
        await world.force_delete("a")
        await world.until(lambda: deleted(world) == {1: "uid-a"})
    failures = "gputopo_agent_failures_total"
    assert (world.metrics.registry.get_sample_value(failures, {"of": "state"}) or 0) > 0
