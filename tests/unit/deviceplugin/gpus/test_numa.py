from dataclasses import replace
from pathlib import Path

import pytest

from gputopo.catalogue import named
from gputopo.topology.model import NumaNode
from gputopo_deviceplugin.gpus.numa import (
    numa_nodes_of,
    read_cpus_of_nodes,
    read_local_cpus,
    read_numa_nodes,
    read_online_cpus,
)


def write(system_dir: Path, node: int, cpus: str, kib: int) -> None:
    folder = system_dir / f"devices/system/node/node{node}"
    folder.mkdir(parents=True)
    (folder / "cpulist").write_text(cpus)
    (folder / "meminfo").write_text(
        f"\nNode {node} MemTotal:       {kib} kB\nNode {node} MemFree:        1 kB\n"
    )


def test_numa_nodes_are_read_in_ascending_order(tmp_path: Path) -> None:
    write(tmp_path, 10, "8-11,20\n", 2048)
    write(tmp_path, 2, "0-7\n", 1024)
    assert read_numa_nodes(tmp_path) == (NumaNode(2, 8, 2**20), NumaNode(10, 5, 2**21))


def test_a_numa_node_with_memory_only_has_no_cpus(tmp_path: Path) -> None:
    write(tmp_path, 0, "\n", 1024)
    assert read_numa_nodes(tmp_path) == (NumaNode(0, 0, 2**20),)


def test_without_sysfs_there_are_no_numa_nodes(tmp_path: Path) -> None:
    assert read_numa_nodes(tmp_path) == ()


def test_numa_nodes_without_description_are_omitted(tmp_path: Path) -> None:
    (tmp_path / "devices/system/node/node0").mkdir(parents=True)
    (tmp_path / "devices/system/node/node_list").mkdir()
    assert read_numa_nodes(tmp_path) == ()


def write_online(system_dir: Path, cpus: str) -> None:
    folder = system_dir / "devices/system/cpu"
    folder.mkdir(parents=True)
    (folder / "online").write_text(cpus)


def test_numa_nodes_with_a_damaged_list_of_cpus_have_no_cpus(tmp_path: Path) -> None:
    write(tmp_path, 0, "0-\n", 1024)
    assert read_numa_nodes(tmp_path) == (NumaNode(0, 0, 2**20),)


def test_the_cpus_of_several_numa_nodes_are_joined_without_offline_cpus(tmp_path: Path) -> None:
    write(tmp_path, 0, "0-3,8\n", 1024)
    write(tmp_path, 1, "4-7\n", 1024)
    write(tmp_path, 2, "\n", 1024)
    write_online(tmp_path, "0-2,4-8\n")
    assert read_local_cpus(tmp_path, [0]) == {0, 1, 2, 8}
    assert read_local_cpus(tmp_path, [0, 1]) == {0, 1, 2, 4, 5, 6, 7, 8}
    assert read_local_cpus(tmp_path, [1, 2]) == {4, 5, 6, 7}, "node 2 has memory only"


def test_every_numa_node_has_its_online_cpus(tmp_path: Path) -> None:
    write(tmp_path, 0, "0-3,8\n", 1024)
    write(tmp_path, 2, "\n", 1024)
    write_online(tmp_path, "0-2,4-8\n")
    assert read_online_cpus(tmp_path) == {0: {0, 1, 2, 8}, 2: frozenset()}


def test_if_sysfs_does_not_describe_a_numa_node_no_cpus_are_local(tmp_path: Path) -> None:
    write(tmp_path, 0, "0-3\n", 1024)
    write(tmp_path, 1, "none\n", 1024)
    assert read_local_cpus(tmp_path, [0]) == frozenset(), "the online CPUs are unknown"
    write_online(tmp_path, "0-3\n")
    assert read_local_cpus(tmp_path, [0, 1]) == frozenset()
    assert read_local_cpus(tmp_path, [0, 5]) == frozenset()


@pytest.mark.parametrize(
    ("numbers", "nodes"), [((1, 0, 1), (0, 1)), ((8,), (8,)), ((0, None), ()), ((), ())]
)
def test_numa_nodes_of_gpus_are_unknown_if_one_is_unknown(
    numbers: tuple[int | None, ...], nodes: tuple[int, ...]
) -> None:
    gpus = named("dgx1-v100").gpus
    numbered = [replace(gpu, numa_node=node) for gpu, node in zip(gpus, numbers, strict=False)]
    assert numa_nodes_of(numbered) == nodes


def test_the_cpus_of_every_numa_node_are_those_that_are_online_and_allowed(tmp_path: Path) -> None:
    for node, cpus in ((0, "0-3\n"), (1, "4-7\n"), (2, "\n"), (3, "8\n"), (4, "not a list\n")):
        write(tmp_path, node, cpus, 1024)
    (tmp_path / "devices/system/node/node_other").mkdir()
    assert read_cpus_of_nodes(tmp_path, range(16)) == {}, "which CPUs are online is unknown"
    (tmp_path / "devices/system/cpu").mkdir()
    (tmp_path / "devices/system/cpu/online").write_text("0-2,4-8\n")
    found = read_cpus_of_nodes(tmp_path, range(1, 8))
    assert found == {0: frozenset({1, 2}), 1: frozenset(range(4, 8))}
