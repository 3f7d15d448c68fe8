"""Predicts the speeds of a set of workloads on one GPU, or finds that they are unknown.

The best known source decides for each pair: the pair was measured, similar pairs were, or the loads
of both are known. For more than two jobs that were not measured together, the additional times of
the pairs are added: ``1 / speed = 1 + sum(1 / pair - 1)``. This is exact for jobs that each fill
the GPU: three of them have pairs of 1/2 and a speed of 1 / (1 + 1 + 1) = 1/3. It is too optimistic
for jobs that fit in pairs, but not all together. So if the loads of all jobs are known, the speed
is at most that of their loads. A measured sharing that is wrong is ended.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gputopo.sharing.estimate import SpeedEstimate, SpeedSource
from gputopo.sharing.loadlaw import LoadCapacity, load_share
from gputopo.sharing.model import MeasuredSharing, SharingWorkload
from gputopo.sharing.pairs import MEASURED_DEVIATION, PairModel
from gputopo.sharing.speedup import SharingGain, gain_of

MAX_DEVIATION: Final = 0.15
"""A speed is known from similar pairs if its standard deviation is at most this; half of that
before any measurement."""

_WORST_LAST: Final = list(SpeedSource)

LOAD_DEVIATION: Final = 0.15
"""Assumed standard deviation of a speed that is computed from loads."""


@dataclass(frozen=True, slots=True)
class SetPrediction:
    """Predicted speeds of the jobs of one GPU, in the order of the arguments.

    Attributes:
        gain: gain at the predicted speeds; None if a speed is unknown.
        least: gain at the lower ends of the intervals.
        most: gain at the upper ends.
    """

    speeds: tuple[SpeedEstimate, ...]
    gain: SharingGain | None
    least: SharingGain | None
    most: SharingGain | None


class SharingPredictor:
    """Predicts the speeds of workloads that share a GPU of one model.

    Equal facts in any order give equal predictions. An object is valid as long as the facts do not
    change.
    """

    def __init__(
        self,
        facts: Iterable[MeasuredSharing] = (),
        workloads: Iterable[SharingWorkload] = (),
        capacity: LoadCapacity | None = None,
    ) -> None:
        """Learn from the facts.

        Args:
            facts: measured sharings on this GPU model; several of the same workloads are merged.
            workloads: what is known of the workloads of the facts.
            capacity: calibration of this GPU model; None if there is none, so that loads predict
                nothing.
        """
        merged: dict[tuple[str, ...], MeasuredSharing] = {}
        for fact in sorted(facts, key=lambda each: (each.workloads, each.speeds, each.samples)):
            found = merged.get(fact.workloads)
            merged[fact.workloads] = fact if found is None else found.merged(fact)
        self._measured: Final = merged
        self._pairs: Final = PairModel(merged.values(), workloads)
        self._capacity: Final = capacity
        self._known: Final[dict[tuple[SharingWorkload, SharingWorkload], SpeedEstimate]] = {}

    def predict(self, workloads: Sequence[SharingWorkload]) -> SetPrediction:
        """Return the speeds of these workloads on one GPU."""
        speeds = self._measured_set(workloads) or self._composed(workloads)
        rates = [workload.steps_per_second for workload in workloads]
        if not all(speed.is_known for speed in speeds):
            return SetPrediction(speeds, None, None, None)
        return SetPrediction(
            speeds,
            gain_of([speed.value for speed in speeds], rates),
            gain_of([speed.low for speed in speeds], rates),
            gain_of([speed.high for speed in speeds], rates),
        )

    def beside(self, own: SharingWorkload, other: SharingWorkload) -> SpeedEstimate:
        """Return the speed of ``own`` beside ``other`` alone."""
        found = self._known.get((own, other))
        if found is None:
            measured = self._measured_set((own, other))
            found = measured[0] if measured else self._estimated(own, other)
            self._known[own, other] = found
        return found

    def _measured_set(self, workloads: Sequence[SharingWorkload]) -> tuple[SpeedEstimate, ...]:
        """Return the measured speeds of exactly this set; nothing if it was not measured."""
        fact = self._measured.get(tuple(sorted(workload.name for workload in workloads)))
        if fact is None:
            return ()
        deviation = MEASURED_DEVIATION / fact.samples**0.5
        return tuple(
            SpeedEstimate.of(_speed_of(fact, workload.name), deviation, SpeedSource.MEASURED)
            for workload in workloads
        )

    def _estimated(self, own: SharingWorkload, other: SharingWorkload) -> SpeedEstimate:
        learnt = self._pairs.speed(own, other)
        if learnt.deviation <= MAX_DEVIATION:
            return SpeedEstimate.of(*learnt, SpeedSource.SIMILAR)
        by_load = self._by_load((own, other))
        if by_load is not None:
            return SpeedEstimate.of(by_load, LOAD_DEVIATION, SpeedSource.LOAD)
        return SpeedEstimate.of(*learnt, SpeedSource.UNKNOWN)

    def _by_load(self, workloads: Sequence[SharingWorkload]) -> float | None:
        shares = [share for share in map(load_share, workloads) if share is not None]
        if self._capacity is None or len(shares) < len(workloads):
            return None
        return self._capacity.speed(shares)

    def _composed(self, workloads: Sequence[SharingWorkload]) -> tuple[SpeedEstimate, ...]:
        most = (self._by_load(workloads) if len(workloads) > 2 else None) or 1.0  # noqa: PLR2004
        return tuple(
            _together(
                [self.beside(own, other) for j, other in enumerate(workloads) if j != i], most
            )
            for i, own in enumerate(workloads)
        )


def _speed_of(fact: MeasuredSharing, name: str) -> float:
    """Return the speed of a workload; the mean of all its jobs in the set."""
    found = [
        speed
        for workload, speed in zip(fact.workloads, fact.speeds, strict=True)
        if workload == name
    ]
    return sum(found) / len(found)


def _together(pairs: Sequence[SpeedEstimate], most: float) -> SpeedEstimate:
    """Return the speed beside several workloads, at most ``most``, from that beside each."""
    several = SpeedSource.MEASURED if len(pairs) == 1 else SpeedSource.PAIRS
    sources = [several, *(pair.source for pair in pairs)]
    return SpeedEstimate(
        min(most, composed_speed([pair.value for pair in pairs])),
        min(most, composed_speed([pair.low for pair in pairs])),
        composed_speed([pair.high for pair in pairs]),
        max(sources, key=_WORST_LAST.index),
    )


def composed_speed(pairs: Sequence[float]) -> float:
    """Return the speed of a job beside several others from its speed beside each of them.

    >>> round(composed_speed([0.5, 0.5]), 3)
    0.333
    """
    return 1 / (1 + sum(1 / pair - 1 for pair in pairs))
