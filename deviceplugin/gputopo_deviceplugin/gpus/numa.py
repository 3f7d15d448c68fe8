"""The host's NUMA nodes, from sysfs."""

import re
from pathlib import Path

from gputopo.topology.model import NumaNode

_NODE = re.compile(r"node(\d+)")
_TOTAL = re.compile(r"^Node \d+ MemTotal:\s+(\d+) kB$", re.MULTILINE)


def numa_nodes(system_dir: Path) -> tuple[NumaNode, ...]:
    """Return CPUs (hardware threads) and memory of every NUMA node, in ascending order.

    A node that sysfs does not describe is left out; without sysfs there is none.
    """
    found = []
    for folder in (system_dir / "devices/system/node").glob("node*"):
        if (name := _NODE.fullmatch(folder.name)) is None:
            continue
        total = _TOTAL.search(_read(folder / "meminfo"))
        if total is not None:
            cpus = _count(_read(folder / "cpulist"))
            found.append(NumaNode(int(name[1]), cpus, int(total[1]) * 1024))
    return tuple(sorted(found, key=lambda node: node.id))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _count(cpu_list: str) -> int:
    """Return how many CPUs a list as ``0-3,8`` names."""
    count = 0
    for part in cpu_list.strip().split(","):
        first, _, last = part.partition("-")
        if first:
            count += int(last or first) - int(first) + 1
    return count
