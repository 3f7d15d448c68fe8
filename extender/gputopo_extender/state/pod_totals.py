"""Counts waiting pods, and adds up the bandwidths of placed pods, for the metrics.

The ledger reports every change of a pod, so a scrape does not parse the pods of the cluster.
"""

from collections.abc import Collection, Container, Mapping
from typing import Final, NamedTuple

from gputopo.api.annotations import AnnotationError, parse_placement
from gputopo_kube.own_gpus import own_gpus
from gputopo_kube.pods import PodView

_MOST_MB_PER_S: Final = 10_000_000
"""Higher values are not from gputopo: an NVSwitch of 2025 gives a GPU 900,000 MB/s."""


class PlacedBandwidth(NamedTuple):
    """Effective bandwidths of pods by the physical model, in MB/s.

    Attributes:
        chosen: bandwidth of the GPUs that the pods got.
        best: bandwidth of the best GPUs for them on an idle node.
    """

    chosen: int = 0
    best: int = 0


class PodTotals:
    """Waiting pods, and the bandwidths of placed pods, of the pods that the ledger knows."""

    def __init__(self) -> None:
        self._created: dict[str, float | None] = {}
        self._placed: dict[str, tuple[bool, PlacedBandwidth]] = {}

    def put(self, pod: PodView, before: PodView | None) -> None:
        """Add or replace a pod; ``before`` is the former view of the pod, if there is one."""
        if pod.live and pod.node is None and not pod.gated:
            self._created[pod.uid] = pod.created
        else:
            self._created.pop(pod.uid, None)
        if before is None or _decisive(pod) != _decisive(before):
            self._placed.pop(pod.uid, None)
            if placed := _placed(pod):
                self._placed[pod.uid] = placed

    def drop(self, uid: str) -> None:
        """Remove a pod."""
        self._created.pop(uid, None)
        self._placed.pop(uid, None)

    def keep_only(self, uids: Container[str]) -> None:
        """Remove all other pods."""
        for uid in [uid for uid in {*self._created, *self._placed} if uid not in uids]:
            self.drop(uid)

    def waiting(self) -> Collection[float | None]:
        """Return when each waiting pod was created, in Unix time; None if it is unknown."""
        return self._created.values()

    def bandwidths(self) -> Mapping[bool, PlacedBandwidth]:
        """Return the sums over bandwidth-sensitive pods (key True) and all others (False)."""
        sums = {True: PlacedBandwidth(), False: PlacedBandwidth()}
        for sensitive, (chosen, best) in self._placed.values():
            total = sums[sensitive]
            sums[sensitive] = PlacedBandwidth(total.chosen + chosen, total.best + best)
        return sums


def _decisive(pod: PodView) -> tuple[object, ...]:
    return (pod.live, pod.node, pod.annotations)


def _placed(pod: PodView) -> tuple[bool, PlacedBandwidth] | None:
    """Return whether the pod is sensitive, and its bandwidths; None if they are not known.

    They are unknown for a pod with one GPU, without an own annotation, or with values that gputopo
    cannot have written: without the chart's admission policies any user can write the annotation.
    """
    if not pod.live or pod.node is None:
        return None
    try:
        own, placement = own_gpus(pod), parse_placement(pod.annotations)
    except AnnotationError:
        return None
    if own is None or placement is None:
        return None
    chosen, best = placement.physical_mb_per_s, placement.physical_best_mb_per_s
    if chosen is None or best is None or not 0 <= chosen <= best <= _MOST_MB_PER_S:
        return None
    return placement.sensitive, PlacedBandwidth(chosen, best)
