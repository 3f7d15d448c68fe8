"""Kubelet's pod-resources list differs from the placement."""

from support.agent.world import AgentWorld
from support.api.store import PODS


async def test_a_swap_in_kubelets_list_is_recorded_once_for_each_pod(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        await world.run("a", {"main": [1]})
        await world.run("b", {"main": [4]})
        pods = world.kubelet.checkpoint.pods
        pods["default", "a"], pods["default", "b"] = pods["default", "b"], pods["default", "a"]
        await world.until(lambda: len(world.events("GPUsDiffer")) == 2)
        # The object shows the observed users, not the intended ones.
        await world.until(lambda: world.observed(1).get("pod") == "b")
        assert world.observed(4)["podUID"] == "uid-a"
        await world.until(lambda: world.condition("AllocationsAsPlaced")["status"] == "False")
        message = world.condition("AllocationsAsPlaced")["message"]
        expected = (
            f"container main should have {world.uuids[1]}, but kubelet lists {world.uuids[4]}"
        )
        assert f"pod default/a: {expected}" in message
        metric = "gputopo_agent_differing_containers"
        assert world.metrics.registry.get_sample_value(metric) == 2
        for name in ("a", "b"):
            world.kubelet.end(("default", name))
            world.api.delete(PODS, name)
        await world.until(lambda: world.condition("AllocationsAsPlaced")["status"] == "True")
        assert world.metrics.registry.get_sample_value(metric) == 0
        assert len(world.events("GPUsDiffer")) == 2


async def test_a_lost_record_of_a_running_pod_is_reported(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        await world.run("a", {"main": [1]})
        await world.set_phase("a", "Running")
        world.kubelet.checkpoint.pods["default", "a"]["main"] = set()
        await world.until(lambda: world.events("GPUsDiffer"))
        assert "but kubelet lists none" in world.events("GPUsDiffer")[0]


async def test_a_watch_that_is_behind_causes_no_difference(world: AgentWorld) -> None:
    async with world.agent():
        await world.served()
        await world.run("set-0", {"main": [1]})
        world.kubelet.end(("default", "set-0"))
        world.api.mute = True  # the watch still shows the former pod
        await world.place("set-0", {"main": [4]}, uid="uid-new")
        world.kubelet.checkpoint.pods["default", "set-0"] = {"main": {world.uuids[4]}}
        await world.until(lambda: world.observed(4).get("podUID") == "uid-new")
        assert world.events("GPUsDiffer") == []
        assert world.condition("AllocationsAsPlaced")["status"] == "True"
