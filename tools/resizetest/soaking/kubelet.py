"""What kubelet has allocated and what is in effect, from the disk and the cgroups of a node.

This does not depend on the API server, so it is known while parts of the cluster are down.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from localcluster.access import NodeAccess, parse_pod_cgroup
from resizetest import amounts

_CHECKPOINT = "/var/lib/kubelet/allocated_pods_state"
_CGROUPS = Path("/sys/fs/cgroup/cpu")
_SHARES_OF_ONE_CPU = 1024
_LEAST_SHARES = 2


@dataclass(frozen=True, slots=True)
class InEffect:
    """CPUs of one running container by its cgroup.

    Attributes:
        request: thousandths of a CPU, from its weight; 0 if it requests none.
        limit: thousandths of a CPU; None without a limit.
    """

    pod_uid: str
    request: int
    limit: int | None


def allocated(nodes: NodeAccess, node: str) -> dict[str, int]:
    """Return the CPU requests in kubelet's checkpoint, by UID of the pod."""
    return parse_checkpoint(nodes.file(node, _CHECKPOINT).read_text())


def parse_checkpoint(text: str) -> dict[str, int]:
    """Parse kubelet's file ``allocated_pods_state``.

    >>> data = {"entries": {"a": {"ContainerResources": {"main": {"requests": {"cpu": "50m"}}}}}}
    >>> parse_checkpoint(json.dumps({"data": json.dumps(data), "checksum": 1}))
    {'a': 50}
    """
    entries = json.loads(json.loads(text)["data"]).get("entries") or {}
    return {uid: _request(entry["ContainerResources"] or {}) for uid, entry in entries.items()}


def in_effect(cgroup: str) -> Iterator[InEffect]:
    """Yield each running container of the node with this cgroup.

    A failed creation can leave a cgroup without processes, which has the default weight of 1 CPU.
    """
    for folder, _, _ in os.walk(_CGROUPS / cgroup / "kubepods"):
        place = parse_pod_cgroup(folder)
        with suppress(OSError):  # the container ends meanwhile
            if place is not None and Path(folder, "cgroup.procs").read_text():
                yield parse_group(place[0], *(_number(folder, name) for name in _FILES))


_FILES = ("cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us")


def parse_group(pod_uid: str, shares: int, quota_us: int, period_us: int) -> InEffect:
    """Return the CPUs of a cgroup of version 1.

    >>> parse_group("a", 102, 10_000, 100_000)
    InEffect(pod_uid='a', request=100, limit=100)
    >>> parse_group("a", 2, -1, 100_000)
    InEffect(pod_uid='a', request=0, limit=None)
    """
    request = -(-shares * 1000 // _SHARES_OF_ONE_CPU) if shares > _LEAST_SHARES else 0
    return InEffect(pod_uid, request, quota_us * 1000 // period_us if quota_us > 0 else None)


def _number(folder: str, name: str) -> int:
    return int(Path(folder, name).read_text())


def _request(containers: Mapping[str, Mapping[str, Mapping[str, str]]]) -> int:
    return sum(
        amounts.milli_cpu(each.get("requests", {}).get("cpu", "0")) for each in containers.values()
    )
