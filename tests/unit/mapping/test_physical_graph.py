"""The physical graph has the paper's levels and lengths, and its parts follow the hardware."""

import subprocess
import sys
from itertools import combinations

import networkx as nx
import pytest

from gputopo.catalogue import all_names, named
from gputopo.mapping.graph import Level, physical_graph
from gputopo.mapping.partition import ClusterPart, MachinePart, cluster_parts, machine_parts
from gputopo.topology.model import GpuMask
from gputopo.utility.communication import distance_to_network, gpu_distances, sockets
from support.builders.topologies import gpus, node

SERVERS = sorted({named(name).fingerprint: name for name in all_names()}.values())


def test_graph_of_the_papers_machine_is_figure_7() -> None:
    graph = physical_graph({"m": named("power8-minsky")})
    assert {name: data["level"] for name, data in graph.nodes(data=True)} == {
        "network": Level.NETWORK,
        "m": Level.MACHINE,
        **{f"m/socket{number}": Level.SOCKET for number in (0, 1)},
        **{f"m/gpu{number}": Level.GPU for number in range(4)},
    }
    assert {frozenset((a, b)): data["length"] for a, b, data in graph.edges(data=True)} == {
        frozenset(("m", "network")): 100,
        **{frozenset(("m", f"m/socket{number}")): 20 for number in (0, 1)},
        **{frozenset((f"m/socket{number // 2}", f"m/gpu{number}")): 1 for number in range(4)},
        frozenset(("m/gpu0", "m/gpu1")): 1,
        frozenset(("m/gpu2", "m/gpu3")): 1,
    }


@pytest.mark.parametrize("server", SERVERS)
def test_shortest_paths_of_the_graph_are_the_distances(server: str) -> None:
    """Paths through a third GPU are left out: GPUs do not forward data of others."""
    topology = named(server)
    graph = physical_graph({"m": topology, "other": topology})
    distances, to_network = gpu_distances(topology), distance_to_network(topology)
    names = {gpu.index: f"m/gpu{gpu.index}" for gpu in topology.gpus}
    for a, b in combinations(names, 2):
        others = [name for name in names.values() if name not in {names[a], names[b]}]
        direct = graph.subgraph(set(graph) - set(others))
        found = nx.shortest_path_length(direct, names[a], names[b], weight="length")
        assert distances[a, b] == found
    alone = graph.subgraph(set(graph) - set(list(names.values())[1:]))
    first, *_ = names
    assert to_network[first] == nx.shortest_path_length(
        alone, names[first], "network", weight="length"
    )


def test_switches_have_a_level_of_their_own() -> None:
    graph = physical_graph({"m": named("dgx1-v100")})
    assert [name for name, data in graph.nodes(data=True) if data["level"] is Level.SWITCH] == [
        f"m/switch{number}" for number in range(4)
    ]
    assert graph.edges["m/switch3", "m/socket1"]["length"] == 5
    assert "m/nvswitch" in physical_graph({"m": named("dgx-a100")})


def leaves(part: MachinePart) -> list[GpuMask]:
    if part.halves is None:
        return [part.gpus]
    first, second = part.halves
    assert first.gpus | second.gpus == part.gpus
    assert not first.gpus & second.gpus
    return [*leaves(first), *leaves(second)]


@pytest.mark.parametrize("server", SERVERS)
def test_parts_end_at_single_gpus(server: str) -> None:
    topology = named(server)
    assert sorted(leaves(machine_parts(topology))) == [1 << gpu.index for gpu in topology.gpus]


@pytest.mark.parametrize("server", ["power8-minsky", "summit", "dgx1-v100", "pcie-8gpu"])
def test_machine_is_cut_between_its_sockets_first(server: str) -> None:
    topology = named(server)
    halves = machine_parts(topology).halves
    assert halves is not None
    assert {half.gpus for half in halves} == set(sockets(topology))


def test_socket_is_cut_between_its_switches() -> None:
    halves = machine_parts(named("pcie-8gpu")).halves
    assert halves is not None
    quarters = [quarter.gpus for half in halves for quarter in half.halves or ()]
    assert sorted(quarters) == [gpus(0, 1), gpus(2, 3), gpus(4, 5), gpus(6, 7)]


def test_machine_of_one_gpu_has_no_halves() -> None:
    assert machine_parts(node(5)) == MachinePart(gpus(5))


@pytest.mark.parametrize("count", [1, 2, 3, 5, 9, 32])
def test_cluster_is_cut_between_machines(count: int) -> None:
    names = [f"n{number:02}" for number in range(count)]
    part = cluster_parts({name: named("power8-minsky") for name in names})
    found: list[str] = []
    pending = [part]
    while pending:
        each = pending.pop()
        if each.halves is None:
            found += each.machines
            assert len(each.machines) == 1
        else:
            small, large = sorted(len(half.machines) for half in each.halves)
            assert small >= min(0.4 * (small + large), (small + large) // 2)
            pending += each.halves
    assert sorted(found) == names


def test_cluster_of_one_machine_has_no_halves() -> None:
    assert cluster_parts({"a": node(0, 1)}) == ClusterPart(("a",))


def test_parts_are_the_same_in_every_process() -> None:
    """Strings have other hash values in each process, so sets of names have another order."""
    script = (
        "from gputopo.mapping.partition import cluster_parts, machine_parts;"
        "from gputopo.catalogue import named;"
        "nodes = {f'n{i}': named('dgx1-v100') for i in range(7)};"
        "print(machine_parts(named('torus-2d-16')), cluster_parts(nodes))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1
