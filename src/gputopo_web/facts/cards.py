"""The card of one node: each GPU with its state and its pod."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gputopo_cluster.topologies import PublishedNode, why_not_ready
from gputopo_explain.text import gpu_models
from gputopo_explain.uses import GpuUse
from gputopo_kube.document import ObjectKey

COLOURS: Final = 8
"""Number of colours and patterns of the style sheet."""

_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
UNREADABLE: Final = "unreadable"
"""Group of the nodes whose GPUTopology is not valid."""


class CellState(StrEnum):
    """What the map shows for a GPU. Each state has a sign of its own, so colour is not needed."""

    FREE = "free"
    STARTING = "starting"
    USED = "used"
    ENDED = "ended"
    UNHEALTHY = "unhealthy"
    DIFFERS = "differs"


@dataclass(frozen=True, slots=True)
class GpuCell:
    """One GPU of a node.

    Attributes:
        numa: NUMA node; None if unknown.
        mark: the lowest GPU index of the pod that uses the GPU; None without a pod. It gives the
            pod its letter and colour, which stay the same while the pod runs.
        pod: namespace and name of the pod; None if no pod uses the GPU.
        reason: why the state is unhealthy or differs; else empty.
        shared: whether ``pod`` has a share of the GPU.
        beside: the other pods that share the GPU.
    """

    index: int
    uuid: str
    numa: int | None
    state: CellState
    mark: int | None = None
    pod: ObjectKey | None = None
    rank: int | None = None
    since: str | None = None
    reason: str = ""
    shared: bool = False
    beside: tuple[ObjectKey, ...] = ()

    @property
    def pods(self) -> tuple[ObjectKey, ...]:
        """All pods on the GPU."""
        return (*([self.pod] if self.pod else ()), *self.beside)

    @property
    def letter(self) -> str:
        """The letter of the pod; empty without a pod.

        >>> GpuCell(3, "u", None, CellState.USED, mark=2).letter
        'C'
        """
        if self.mark is None:
            return ""
        turn = self.mark // len(_LETTERS)
        return _LETTERS[self.mark % len(_LETTERS)] + (str(turn + 1) if turn else "")

    @property
    def colour(self) -> int:
        """Number of the pod's colour, 0 to ``COLOURS - 1``."""
        return (self.mark or 0) % COLOURS


@dataclass(frozen=True, slots=True)
class NodeCard:
    """What the map shows for one node.

    Attributes:
        group: nodes with equal links and GPU models have the same group.
        model: models of the GPUs.
        free: number of GPUs that new pods may get as a whole.
        fault: why the GPUTopology is not valid; None if it is valid.
        not_ready: why the node takes no new pods; None if it does.
        others: differences that belong to no GPU of the node.
    """

    name: str
    group: str
    model: str
    cells: tuple[GpuCell, ...] = ()
    free: int = 0
    fault: str | None = None
    not_ready: str | None = None
    others: tuple[str, ...] = ()

    def count(self, *states: CellState) -> int:
        """Return the number of GPUs in one of these states."""
        return sum(cell.state in states for cell in self.cells)

    @property
    def in_use(self) -> int:
        """Number of GPUs of pods without the unhealthy ones; also if the scheduler chose others."""
        return sum(bool(cell.pod) and cell.state != CellState.UNHEALTHY for cell in self.cells)

    @property
    def differs(self) -> bool:
        """Whether kubelet gave GPUs to other containers than the scheduler chose."""
        return bool(self.others) or self.count(CellState.DIFFERS) > 0

    @property
    def pods(self) -> tuple[ObjectKey, ...]:
        """The pods with GPUs, by their lowest index."""
        return tuple(dict.fromkeys(pod for cell in self.cells for pod in cell.pods))


def node_card(node: PublishedNode, uses: Iterable[GpuUse], free: int) -> NodeCard:
    """Return the card of a node; each of its GPUs has at least one of ``uses``, free or not."""
    if node.topology is None:
        return NodeCard(node.name, UNREADABLE, "", fault=node.fault or "no content")
    of_gpu: dict[str, list[GpuUse]] = {}
    for use in uses:
        of_gpu.setdefault(use.uuid or "", []).append(use)
    lowest = _lowest_indices(of_gpu.values())
    cells = tuple(
        _cell(int(gpu.index), gpu.uuid, gpu.numa_node, of_gpu[gpu.uuid], lowest)
        for gpu in sorted(node.topology.gpus, key=lambda gpu: (gpu.numa_node or 0, gpu.index))
    )
    models = gpu_models(node.topology)
    known = {cell.uuid for cell in cells}
    return NodeCard(
        node.name,
        f"{node.topology.fingerprint[:12]}-{_digest(models)}",
        models,
        cells,
        free,
        not_ready=why_not_ready(node.conditions.values()),
        others=tuple(
            f"{use.pod_name or 'unknown pod'}: {use.difference}"
            for uuid, found in of_gpu.items()
            if uuid not in known
            for use in found
            if use.difference
        ),
    )


def _digest(text: str) -> str:
    """Return 4 hexadecimal digits that are the same in every process."""
    value = 0
    for byte in text.encode():
        value = (value * 31 + byte) & 0xFFFF
    return f"{value:04x}"


def _lowest_indices(uses: Iterable[Sequence[GpuUse]]) -> Mapping[str, int]:
    lowest: dict[str, int] = {}
    for use in (use for found in uses for use in found):
        if use.pod_name and use.index is not None:
            lowest[use.pod_name] = min(use.index, lowest.get(use.pod_name, use.index))
    return lowest


def _cell(
    index: int, uuid: str, numa: int | None, uses: Sequence[GpuUse], lowest: Mapping[str, int]
) -> GpuCell:
    use = next((each for each in uses if each.difference), uses[0])
    state, reason = _state(use)
    pod = _key(use)
    others = [_key(each) for each in uses if each.share]
    return GpuCell(
        index,
        uuid,
        numa,
        state,
        mark=lowest.get(use.pod_name or ""),
        pod=pod,
        rank=use.rank,
        since=use.since,
        reason=reason,
        shared=use.share is not None,
        beside=tuple(dict.fromkeys(each for each in others if each is not None and each != pod)),
    )


def _key(use: GpuUse) -> ObjectKey | None:
    return ObjectKey(use.namespace or "", use.pod) if use.pod else None


def _state(use: GpuUse) -> tuple[CellState, str]:
    if use.difference:
        return CellState.DIFFERS, use.difference
    if use.pod_deleted:
        return CellState.ENDED, "a process of a deleted pod still runs"
    if use.unhealthy:
        return CellState.UNHEALTHY, use.unhealthy
    if not use.pod:
        return CellState.FREE, ""
    return (CellState.USED if use.observed else CellState.STARTING), ""
