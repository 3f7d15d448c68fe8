"""The NUMA nodes that a node of the local cluster shows."""

from pathlib import Path

import pytest

from gputopo.topology.model import NumaNode
from gputopo_deviceplugin.gpus.numa import read_local_cpus, read_numa_nodes
from localcluster import numa, settings

MEMORY_KB = 8_000_000


def sysfs(folder: Path, cpus: int) -> Path:
    """Return a folder that stands for /sys, with all CPUs online."""
    system = folder / "devices/system"
    for cpu in range(cpus):
        (system / f"cpu/cpu{cpu}/topology").mkdir(parents=True)
    (system / "cpu/online").write_text(f"0-{cpus - 1}\n")
    return folder


def test_the_agent_finds_the_servers_numa_nodes_with_equal_parts_of_the_machine(
    tmp_path: Path,
) -> None:
    root = sysfs(tmp_path, 4)
    folder = root / "devices/system/node"
    numa.write(folder, [0, 8], range(4), MEMORY_KB, {"hugepages-2048kB": 10})
    half = MEMORY_KB // 2 * 1024
    assert read_numa_nodes(root) == (NumaNode(0, 2, half), NumaNode(8, 2, half))
    assert read_local_cpus(root, [8]) == {2, 3}
    assert (folder / "node8/hugepages/hugepages-2048kB/nr_hugepages").read_text() == "5\n"


def test_each_cpu_of_a_numa_node_is_that_of_the_machine(tmp_path: Path) -> None:
    folder = sysfs(tmp_path, 2) / "devices/system/node"
    numa.write(folder, [0, 1], range(2), MEMORY_KB, {})
    assert [path.name for path in sorted(folder.glob("node*/cpu[0-9]"))] == ["cpu0", "cpu1"]
    assert (folder / "node1/cpu1/topology").is_dir()
    assert (folder / "node1/cpumap").read_text() == "2\n"
    assert (folder / "node1/distance").read_text() == "21 10\n"


def test_a_numa_node_without_cpus_is_shown_as_such(tmp_path: Path) -> None:
    numa.write(tmp_path / "node", range(4), [0, 1], MEMORY_KB, {})
    assert (tmp_path / "node/has_cpu").read_text() == "0,1\n"
    assert (tmp_path / "node/node3/cpulist").read_text() == "\n"


@pytest.mark.parametrize(
    ("cpus", "parts", "expected"),
    [
        ([0, 1], 2, [[0], [1]]),
        ([0, 1, 2], 2, [[0, 1], [2]]),
        ([0], 2, [[0], []]),
        ([4, 5, 6, 7], 1, [[4, 5, 6, 7]]),
    ],
)
def test_cpus_are_divided_evenly(cpus: list[int], parts: int, expected: list[list[int]]) -> None:
    assert numa.divide(cpus, parts) == expected


def test_a_node_with_gpus_gets_the_numa_nodes_of_its_server(tmp_path: Path) -> None:
    folder = tmp_path / "numa"
    numa.install({"n1": "dgx1-v100"}, "n1", folder)
    assert sorted(path.name for path in folder.glob("node*")) == ["node0", "node1"]
    numa.install({"n1": "none"}, "n1", folder)
    assert not folder.exists()


def test_containers_see_the_numa_nodes_of_their_node() -> None:
    own = {"destination": "/sys", "type": "sysfs", "source": "sysfs"}
    spec = numa.base_spec({"ociVersion": "1.2.0", "mounts": [own]})
    first, second = spec["mounts"]
    assert (spec["ociVersion"], first) == ("1.2.0", own)
    assert second["destination"] == second["source"] == str(settings.NUMA_NODES)
    assert "ro" in second["options"]
