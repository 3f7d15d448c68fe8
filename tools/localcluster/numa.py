"""NUMA nodes of the server that a node plays, as a folder like ``/sys/devices/system/node``.

Each node shows this folder at that place to its own programs, and to all its containers. kubelet
and the agent then find the NUMA nodes of the server, with equal parts of this machine's CPUs and
memory. CPU numbers are those of this machine, so that a container can be bound to them. Memory
cannot be bound: the kernel knows only its own NUMA nodes.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from gputopo.catalogue import named
from localcluster import files, settings
from localcluster.commands import run
from localcluster.fakegpus import NO_GPUS

_HUGE_PAGES: Final = Path("/sys/kernel/mm/hugepages")
_NEAR, _FAR = 10, 21


def install(servers: Mapping[str, str], node: str, folder: Path) -> None:
    """Write the files of the server's NUMA nodes; none for a node without GPUs."""
    files.remove(folder)
    server = servers.get(node, NO_GPUS)
    if server == NO_GPUS:
        return
    ids = [numa_node.id for numa_node in named(server).numa_nodes]
    write(folder, ids, sorted(os.sched_getaffinity(0)), _memory_kb(), _huge_pages())


def write(
    folder: Path,
    ids: Sequence[int],
    cpus: Sequence[int],
    memory_kb: int,
    huge_pages: Mapping[str, int],
) -> None:
    """Write the files of a machine with the NUMA nodes ``ids``.

    Args:
        folder: stands for ``/sys/devices/system/node``; the links to CPUs are relative to it.
        ids: NUMA nodes in ascending order.
        cpus: CPUs of the machine. With fewer CPUs than NUMA nodes, the last nodes have none.
        memory_kb: memory of the machine.
        huge_pages: number of huge pages of the machine, by the folder of their size.
    """
    parts = dict(zip(ids, divide(cpus, len(ids)), strict=True))
    with_cpus = [number for number in ids if parts[number]]
    folder.mkdir(parents=True)
    for name in ("online", "possible", "has_memory", "has_normal_memory"):
        (folder / name).write_text(_listed(ids))
    (folder / "has_cpu").write_text(_listed(with_cpus))
    for number in ids:
        one = folder / f"node{number}"
        _write_cpus(one, parts[number])
        distances = [_NEAR if other == number else _FAR for other in ids]
        (one / "distance").write_text(" ".join(map(str, distances)) + "\n")
        (one / "meminfo").write_text(_meminfo(number, memory_kb // len(ids)))
        # cAdvisor stops with an error if this folder is missing.
        (one / "hugepages").mkdir()
        for size, count in huge_pages.items():
            (one / "hugepages" / size).mkdir()
            (one / "hugepages" / size / "nr_hugepages").write_text(f"{count // len(ids)}\n")


def divide(cpus: Sequence[int], parts: int) -> list[Sequence[int]]:
    """Divide CPUs into consecutive parts whose sizes differ by at most 1, the largest first."""
    least, more = divmod(len(cpus), parts)
    starts = [number * least + min(number, more) for number in range(parts + 1)]
    return [cpus[start:end] for start, end in pairwise(starts)]


def default_spec(binaries: Path) -> dict[str, Any]:
    """Return containerd's own OCI spec of a container."""
    spec: dict[str, Any] = json.loads(run([binaries / "ctr", "oci", "spec"]))
    return spec


def base_spec(default: Mapping[str, Any]) -> dict[str, Any]:
    """Return the OCI spec from which containerd makes all containers of a node.

    The container's own sysfs would show the machine's NUMA nodes. So the node's folder is mounted
    over that part of it.

    Args:
        default: containerd's own spec.
    """
    place = str(settings.NUMA_NODES)
    options = ["rbind", "ro", "nosuid", "noexec", "nodev"]
    mount = {"destination": place, "type": "bind", "source": place, "options": options}
    return {**default, "mounts": [*default["mounts"], mount]}


def _write_cpus(folder: Path, cpus: Sequence[int]) -> None:
    folder.mkdir()
    (folder / "cpulist").write_text(_listed(cpus))
    (folder / "cpumap").write_text(f"{sum(1 << cpu for cpu in cpus):x}\n")
    for cpu in cpus:
        (folder / f"cpu{cpu}").symlink_to(f"../../cpu/cpu{cpu}")


def _meminfo(node: int, total_kb: int) -> str:
    amounts = {"MemTotal": total_kb, "MemFree": total_kb, "MemUsed": 0}
    return "".join(f"Node {node} {name}: {kb:>15} kB\n" for name, kb in amounts.items())


def _listed(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers)) + "\n"


def _memory_kb() -> int:
    total = re.search(r"^MemTotal:\s+(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return int(total[1]) if total else 0


def _huge_pages() -> dict[str, int]:
    counts = _HUGE_PAGES.glob("hugepages-*/nr_hugepages")
    return {file.parent.name: int(file.read_text()) for file in counts}
