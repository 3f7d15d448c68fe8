"""The last decisions: which pod got which GPUs, and when the pod ended."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from heapq import heappush, heappushpop
from itertools import count
from typing import TYPE_CHECKING, Final

from gputopo.api.annotations import AnnotationError, PlacementAnnotation, parse_placement
from gputopo.api.shares import gpu_of
from gputopo_explain.placed_pods import PlacedPod
from gputopo_kube.document import ObjectKey

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_DECISIONS: Final = 300


class DecisionKind(StrEnum):
    """What happened to a pod."""

    PLACED = "placed"
    REJECTED = "rejected by kubelet"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One entry of the history.

    Attributes:
        time: RFC 3339 time.
        gpus: indices of the GPUs on the node, in rank order; those of unknown GPUs are left out.
        uuids: UUIDs of all GPUs, in rank order.
        placement: figures of the choice; None if the pod has none that can be parsed.
        reason: kubelet's message if it rejected the pod; else empty.
    """

    kind: DecisionKind
    time: str
    pod: ObjectKey
    node: str
    gpus: tuple[int, ...]
    uuids: tuple[str, ...] = ()
    placement: PlacementAnnotation | None = None
    reason: str = ""


@dataclass(slots=True)
class History:
    """The newest decisions, at most ``MOST_DECISIONS``.

    A list reports pods by name. So the entries are kept by time: in a cluster with many pods the
    last ones of the list are not the newest.

    Attributes:
        seen: UIDs of existing pods whose decision is known, with the kind of the last entry.
    """

    seen: dict[str, DecisionKind] = field(default_factory=dict)
    _oldest_first: list[tuple[str, int, HistoryEntry]] = field(default_factory=list)
    _numbers: "Iterator[int]" = field(default_factory=count)

    def observe(
        self,
        before: PlacedPod | None,
        after: PlacedPod | None,
        index_of: Mapping[str, int],
        now: str,
    ) -> bool:
        """Take one change of a pod; return whether the history has a new entry.

        Args:
            before: the pod before the change; None if it is new.
            after: the pod after the change; None if it was deleted.
            index_of: indices of the GPUs of its node, by UUID.
            now: RFC 3339 time of the change.
        """
        pod = after or before
        if pod is None or pod.view.node is None or not (pod.gpus or pod.view.rejected):
            return False
        kind, known = _kind(pod, deleted=after is None), self.seen.get(pod.view.uid)
        if after is None:
            self.seen.pop(pod.view.uid, None)
        else:
            self.seen[pod.view.uid] = kind
        if known is kind or (known is None and kind is DecisionKind.ENDED):
            return False
        entry = _decision(kind, pod, index_of, now)
        keep = heappush if len(self._oldest_first) < MOST_DECISIONS else heappushpop
        keep(self._oldest_first, (entry.time, next(self._numbers), entry))
        return True

    def resolve(self, node: str, index_of: Mapping[str, int]) -> bool:
        """Take the indices of a node's GPUs; return whether an entry lacked one of them.

        Pods may be listed before the GPUTopologies.
        """
        changed = False
        for position, (time, number, entry) in enumerate(self._oldest_first):
            if entry.node == node and len(entry.gpus) < len(entry.uuids):
                found = replace(entry, gpus=_indices(entry.uuids, index_of))
                changed = changed or found != entry
                self._oldest_first[position] = (time, number, found)
        return changed

    def newest_first(self) -> list[HistoryEntry]:
        """Return the entries by time."""
        return [entry for *_, entry in sorted(self._oldest_first, reverse=True)]


def _kind(pod: PlacedPod, *, deleted: bool) -> DecisionKind:
    if pod.view.rejected:
        return DecisionKind.REJECTED
    return DecisionKind.ENDED if deleted or not pod.view.live else DecisionKind.PLACED


def _decision(
    kind: DecisionKind, pod: PlacedPod, index_of: Mapping[str, int], now: str
) -> HistoryEntry:
    uuids = tuple(gpu_of(device) for container in pod.gpus.values() for device in container)
    return HistoryEntry(
        kind,
        (pod.since or now) if kind is DecisionKind.PLACED else now,
        pod.view.key,
        pod.view.node or "",
        _indices(uuids, index_of),
        uuids,
        placement_of(pod),
        pod.view.rejected or "",
    )


def _indices(uuids: tuple[str, ...], index_of: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(index_of[gpu] for gpu in uuids if gpu in index_of)


def placement_of(pod: PlacedPod) -> PlacementAnnotation | None:
    """Return the figures of a pod's placement; None if it has none, or they cannot be parsed."""
    if pod.fault is not None or not pod.gpus:
        return None
    try:
        return parse_placement(pod.view.annotations)
    except AnnotationError:
        return None
