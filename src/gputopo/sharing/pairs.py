"""Learns the speed of one workload beside another from measured pairs: a Gaussian process.

The speed of workload i beside j is modelled as ``m + u(i) + v(j) + w(i, j)``: a mean, how much i
suffers from any neighbour, how much j slows any neighbour down, and an effect of the pair. The
similarity of the workloads (:mod:`gputopo.sharing.similarity`) says how much of u, v and w two
pairs have in common. So a pair that was not measured is predicted from similar pairs, and the
deviation of the prediction grows with the distance from them.

Example: with 16 images in a batch, ResNet-18 was measured beside 20 workloads. With 32 images, its
similarity is 0.95. Before it was ever measured, its speed beside these 20 has a deviation of about
0.1, and beside others about 0.2.

Only pairs of one GPU model can be learnt together. The process is solved with at most
:data:`MAX_PAIRS` measured pairs, in some tens of milliseconds, and only if the facts change. A
prediction takes some microseconds, and is kept.
"""

from collections.abc import Iterable, Sequence
from itertools import starmap
from math import sqrt
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gputopo.sharing.model import MeasuredSharing, SharingWorkload
from gputopo.sharing.similarity import similarity

MAX_PAIRS: Final = 400
"""Number of measured pairs from which other pairs are predicted: those with the most samples."""

MEASURED_DEVIATION: Final = 0.05
"""Standard deviation of one measured speed."""

_MEAN_VARIANCE: Final = 0.02
_EFFECT_VARIANCE: Final = 0.02
_PAIR_VARIANCE: Final = 0.04

_Floats = NDArray[np.float64]


class LearntSpeed(NamedTuple):
    """Predicted speed of a workload beside another, and the standard deviation of its error."""

    value: float
    deviation: float


class _Observation(NamedTuple):
    own: SharingWorkload
    other: SharingWorkload
    speed: float


class PairModel:
    """The speeds of pairs of workloads, learnt from measured pairs of one GPU model."""

    def __init__(
        self, facts: Iterable[MeasuredSharing], workloads: Iterable[SharingWorkload]
    ) -> None:
        """Learn from facts; those of more than two workloads are not used.

        Args:
            facts: measured sharings, at most one for each set of workloads.
            workloads: what is known of the workloads; others have only their names.
        """
        known = {workload.name: workload for workload in workloads}
        pairs = sorted(
            (fact for fact in facts if len(fact.workloads) == 2),  # noqa: PLR2004 - a pair
            key=lambda fact: (-fact.samples, fact.workloads),
        )[:MAX_PAIRS]
        seen = [each for fact in pairs for each in _observations(fact, known)]
        places: dict[SharingWorkload, int] = {}
        for each in seen:
            places.setdefault(each.own, len(places))
        self._workloads: Final = tuple(places)
        self._own: Final = np.array([places[each.own] for each in seen], dtype=int)
        self._other: Final = np.array([places[each.other] for each in seen], dtype=int)
        self._learn(np.array([each.speed for each in seen], dtype=float))

    def _learn(self, speeds: _Floats) -> None:
        """Solve the process for the measured speeds."""
        count = len(speeds)
        self._mean = float(speeds.mean()) if count else 1.0
        alike = _matrix(self._workloads, self._workloads)
        own = alike[np.ix_(self._own, self._own)]
        other = alike[np.ix_(self._other, self._other)]
        covariance = _covariance(own, other) + MEASURED_DEVIATION**2 * np.eye(count)
        self._inverse: _Floats = np.asarray(np.linalg.inv(covariance), dtype=np.float64)
        self._weights: _Floats = self._inverse @ (speeds - self._mean)

    def speed(self, own: SharingWorkload, other: SharingWorkload) -> LearntSpeed:
        """Return the speed of ``own`` beside ``other``."""
        alike = _matrix((own, other), self._workloads)
        row = _covariance(alike[0][self._own], alike[1][self._other])
        variance = PRIOR_VARIANCE - float(row @ self._inverse @ row)
        noise = MEASURED_DEVIATION**2
        return LearntSpeed(
            self._mean + float(row @ self._weights), sqrt(max(0.0, variance) + noise)
        )


PRIOR_VARIANCE: Final = _MEAN_VARIANCE + 2 * _EFFECT_VARIANCE + _PAIR_VARIANCE
"""Variance of a speed before any measurement."""


def _covariance(own: _Floats, other: _Floats) -> _Floats:
    """Return the covariance of pairs with these similarities of their workloads."""
    return _MEAN_VARIANCE + _EFFECT_VARIANCE * (own + other) + _PAIR_VARIANCE * own * other


def _matrix(rows: Sequence[SharingWorkload], columns: Sequence[SharingWorkload]) -> _Floats:
    pairs = ((row, column) for row in rows for column in columns)
    return np.array(list(starmap(similarity, pairs)), dtype=float).reshape(len(rows), len(columns))


def _observations(
    fact: MeasuredSharing, known: dict[str, SharingWorkload]
) -> tuple[_Observation, ...]:
    """Return the speed of each of two workloads; two jobs of one workload give one observation."""
    first, second = (known.get(name, SharingWorkload(name)) for name in fact.workloads)
    if first == second:
        return (_Observation(first, first, sum(fact.speeds) / 2),)
    return (
        _Observation(first, second, fact.speeds[0]),
        _Observation(second, first, fact.speeds[1]),
    )
