from pathlib import Path

from gputopo.topology.model import NumaNode
from gputopo_deviceplugin.gpus.numa import read_numa_nodes


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
