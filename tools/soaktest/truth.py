"""Compare the GPUs of containers with their annotations and with kubelet's checkpoint.

The data comes from this machine's process table and the nodes' disks and not from the cluster,
so it is complete while parts of the cluster are down.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gputopo.api.names import RESOURCE
from localcluster.access import NodeAccess, PodProcess, parse_pod_cgroup

_NVIDIA_MAJOR = 195
_CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"


@dataclass(frozen=True, slots=True)
class Running:
    """One running container with GPUs.

    Attributes:
        visible: ``CUDA_VISIBLE_DEVICES``, in order.
        minors: of the device nodes it has.
    """

    process: PodProcess
    visible: tuple[str, ...]
    minors: frozenset[int]

    @property
    def node(self) -> str:
        """Its node."""
        return self.process.node

    @property
    def pod_uid(self) -> str:
        """Its pod."""
        return self.process.pod_uid

    @property
    def container_id(self) -> str:
        """Its container."""
        return self.process.container_id


@dataclass(frozen=True, slots=True)
class Comparison:
    """One container by every source; UUIDs."""

    annotated: tuple[str, ...]
    visible: tuple[str, ...]
    device_nodes: frozenset[str]
    checkpoint: frozenset[str]

    @property
    def as_kubelet_recorded(self) -> bool:
        """Whether environment and device nodes agree with kubelet's checkpoint."""
        return set(self.visible) == self.device_nodes == self.checkpoint

    @property
    def as_intended(self) -> bool:
        """Whether it has the GPUs of its annotation, in that order."""
        return self.visible == self.annotated


def running(nodes: NodeAccess) -> list[Running]:
    """Return every container that has GPUs in its environment, once each."""
    found: dict[str, Running] = {}
    for process in nodes.processes():
        if process.container_id not in found and (one := _running(process)) is not None:
            found[process.container_id] = one
    return list(found.values())


def is_alive(one: Running) -> bool:
    """Whether the process is still in that container."""
    place = parse_pod_cgroup(one.process.read("cgroup"))
    return place is not None and place[1] == one.container_id


def shared(found: Sequence[Running]) -> Iterator[tuple[str, Running, Running]]:
    """Yield each GPU that containers of two pods have at once."""
    users: dict[str, list[Running]] = defaultdict(list)
    for one in found:
        for uuid in one.visible:
            users[uuid].append(one)
    for uuid, several in users.items():
        for other in several[1:]:
            if other.pod_uid != several[0].pod_uid:
                yield uuid, several[0], other


def checkpoint(nodes: NodeAccess, node: str) -> dict[str, frozenset[str]]:
    """Return the GPUs of every pod by kubelet's checkpoint file, by UID of the pod."""
    return parse_checkpoint(nodes.file(node, _CHECKPOINT).read_text())


def parse_checkpoint(text: str) -> dict[str, frozenset[str]]:
    """Return the GPUs in a checkpoint file."""
    pods: dict[str, frozenset[str]] = defaultdict(frozenset)
    for entry in json.loads(text)["Data"]["PodDeviceEntries"] or []:
        if entry["ResourceName"] == RESOURCE:
            pods[entry["PodUID"]] |= {uuid for ids in entry["DeviceIDs"].values() for uuid in ids}
    return dict(pods)


def compare(
    one: Running,
    annotated: tuple[str, ...],
    recorded: Mapping[str, frozenset[str]],
    uuid_of_minor: Mapping[int, str],
) -> Comparison:
    """Return one container by every source."""
    return Comparison(
        annotated=annotated,
        visible=one.visible,
        device_nodes=frozenset(uuid_of_minor.get(minor, str(minor)) for minor in one.minors),
        checkpoint=recorded.get(one.pod_uid, frozenset()),
    )


def _running(process: PodProcess) -> Running | None:
    environment = process.read("environ").split("\0")
    values = [word.partition("=")[2] for word in environment if word.startswith("CUDA_VISIBLE_")]
    # The runtime's own first process has the environment already, but not yet the devices.
    if not values or not process.read("comm").startswith(("sh", "sleep")):
        return None
    minors = process.device_minors(_NVIDIA_MAJOR)
    if minors is None:
        return None
    return Running(process, tuple(filter(None, values[0].split(","))), minors)
