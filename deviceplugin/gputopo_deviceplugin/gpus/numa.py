"""Reads the host's NUMA nodes from sysfs."""

import re
from pathlib import Path

from gputopo.topology.model import NumaNode

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
            cpus = _count_cpus(_read(folder / "cpulist"))
            found.append(NumaNode(int(name[1]), cpus, int(total[1]) * 1024))
    return tuple(sorted(found, key=lambda node: node.id))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _count_cpus(cpu_list: str) -> int:
    """Count the CPUs in a list: 5 for ``0-3,8``."""
    count = 0
    for part in cpu_list.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            count += int(last or first) - int(first) + 1
    return count
