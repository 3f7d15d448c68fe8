"""Reads the host's NUMA nodes and their CPUs from sysfs."""

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from gputopo.topology.model import Gpu, NumaNode
from gputopo_deviceplugin.gpus.cpulist import CpuListError, parse_cpu_list

_NODE = re.compile(r"node(\d+)")
_TOTAL = re.compile(r"^Node \d+ MemTotal:\s+(\d+) kB$", re.MULTILINE)


def read_numa_nodes(system_dir: Path) -> tuple[NumaNode, ...]:
    """Return CPUs (hardware threads) and memory of every NUMA node, in ascending order.

    A NUMA node without readable files is omitted; without sysfs the result is empty.
    """
    found = []
    for folder in (system_dir / "devices/system/node").glob("node*"):
        if (name := _NODE.fullmatch(folder.name)) is None:
            continue
        total = _TOTAL.search(_read(folder / "meminfo"))
        if total is not None:
            cpus = len(_read_cpus(folder / "cpulist") or ())
            found.append(NumaNode(int(name[1]), cpus, int(total[1]) * 1024))
    return tuple(sorted(found, key=lambda node: node.id))


def numa_nodes_of(gpus: Iterable[Gpu]) -> tuple[int, ...]:
    """Return the NUMA nodes of ``gpus`` in ascending order; empty if one of them is unknown."""
    nodes = {gpu.numa_node for gpu in gpus}
    known = sorted(node for node in nodes if node is not None)
    return tuple(known) if len(known) == len(nodes) else ()


def read_local_cpus(system_dir: Path, numa_nodes: Collection[int]) -> frozenset[int]:
    """Return the online CPUs of all ``numa_nodes``; empty if sysfs does not describe one of them.

    The function reads sysfs at each call, because CPUs can go offline and come back. A NUMA node
    may have memory and no CPUs.
    """
    folder = system_dir / "devices/system"
    lists = [_read_cpus(folder / f"node/node{node}/cpulist") for node in numa_nodes]
    known = [cpus for cpus in lists if cpus is not None]
    online = _read_cpus(folder / "cpu/online")
    if online is None or len(known) < len(lists):
        return frozenset()
    return online.intersection(frozenset().union(*known))


def read_online_cpus(system_dir: Path) -> Mapping[int, frozenset[int]]:
    """Return the online CPUs of every NUMA node; a NUMA node may have memory and no CPUs."""
    nodes = read_numa_nodes(system_dir)
    return {node.id: read_local_cpus(system_dir, [node.id]) for node in nodes}


def read_cpus_of_nodes(system_dir: Path, allowed: Collection[int]) -> Mapping[int, frozenset[int]]:
    """Return the CPUs of each NUMA node that are online and in ``allowed``.

    A NUMA node without such CPUs is omitted; without sysfs the result is empty.
    """
    folder = system_dir / "devices/system"
    usable = (_read_cpus(folder / "cpu/online") or frozenset()).intersection(allowed)
    names = (_NODE.fullmatch(each.name) for each in folder.glob("node/node*"))
    nodes = sorted(int(name[1]) for name in names if name is not None)
    found = {node: _read_cpus(folder / f"node/node{node}/cpulist") for node in nodes}
    return {node: usable & cpus for node, cpus in found.items() if cpus and usable & cpus}


def _read_cpus(path: Path) -> frozenset[int] | None:
    """Return the CPUs in a file of sysfs; None if the file is missing or has other content."""
    try:
        return parse_cpu_list(path.read_text())
    except (OSError, CpuListError):
        return None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
