"""The agent with a kubelet and an API server: the CPUs and NUMA nodes near the GPUs."""

from dataclasses import replace
from pathlib import Path

import pytest

from fakenvml.render import render
from support.agent.world import AgentWorld, agent_world


def write_sysfs(world: AgentWorld, online: str = "0-19\n") -> None:
    """Describe two NUMA nodes: GPUs 0 to 3 of a DGX-1 are on node 0, the others on node 1."""
    system = world.settings.system_dir / "devices/system"
    for node, cpus in enumerate(("0-4,10-14\n", "5-9,15-19\n")):
        folder = system / f"node/node{node}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cpulist").write_text(cpus)
        (folder / "meminfo").write_text(f"Node {node} MemTotal:       1024 kB\n")
    (system / "cpu").mkdir(parents=True, exist_ok=True)
    (system / "cpu/online").write_text(online)


async def test_a_container_gets_the_cpus_and_numa_nodes_of_its_own_gpus(world: AgentWorld) -> None:
    write_sysfs(world)
    async with world.agent():
        await world.served()
        given = await world.run("a", {"near": [2, 0], "both": [5, 1], "none": []})
    assert given["near"].envs["GPUTOPO_CPUS"] == "0-4,10-14"
    assert given["near"].envs["GPUTOPO_NUMA_NODES"] == "0"
    assert given["both"].envs["GPUTOPO_CPUS"] == "0-19"
    assert given["both"].envs["GPUTOPO_NUMA_NODES"] == "0,1"
    assert "none" not in given


async def test_with_cdi_a_container_gets_the_same_variables(
    short_directory: Path, library_dir: Path
) -> None:
    async with agent_world(short_directory, library_dir, device_injection="CDI") as world:
        write_sysfs(world)
        async with world.agent():
            await world.served()
            given = await world.run("a", {"main": [4]})
    assert given["main"].envs["GPUTOPO_CPUS"] == "5-9,15-19"
    assert given["main"].envs["GPUTOPO_NUMA_NODES"] == "1"


async def test_a_cpu_that_goes_offline_is_missing_for_the_next_container(world: AgentWorld) -> None:
    write_sysfs(world)
    async with world.agent():
        await world.served()
        await world.run("before", {"main": [0]})
        write_sysfs(world, online="0-3,5-19\n")
        given = await world.run("after", {"main": [1]})
    assert given["main"].envs["GPUTOPO_CPUS"] == "0-3,10-14"


@pytest.mark.parametrize(("gpus", "nodes"), [([0], None), ([0, 1], None), ([1], "0")])
async def test_the_variables_are_absent_if_the_numa_node_of_a_gpu_is_unknown(
    world: AgentWorld, gpus: list[int], nodes: str | None
) -> None:
    write_sysfs(world)
    first, *others = world.topology.gpus
    unknown = replace(world.topology, gpus=(replace(first, numa_node=None), *others))
    world.conf.write_text(render(unknown))
    async with world.agent():
        await world.served()
        given = await world.run("a", {"main": gpus})
    assert given["main"].envs.get("GPUTOPO_NUMA_NODES") == nodes
    assert given["main"].envs.get("GPUTOPO_CPUS") == ("0-4,10-14" if nodes else None)


async def test_without_a_description_of_the_cpus_only_the_numa_nodes_are_named(
    world: AgentWorld,
) -> None:
    async with world.agent():
        await world.served()
        given = await world.run("a", {"main": [0]})
    assert given["main"].envs["GPUTOPO_NUMA_NODES"] == "0"
    assert "GPUTOPO_CPUS" not in given["main"].envs
