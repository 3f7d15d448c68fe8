"""The policies of the simulator: which running job a new job shares a GPU with.

All policies first use empty GPUs. They differ in the jobs that find none.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

from gputopo.sharing.choice import SharingReason, SharingSettings
from gputopo.sharing.decision import decide_sharing
from gputopo.sharing.judge import MeasuredJob, SharingVerdict, judge_sharing
from gputopo.sharing.model import MeasuredSharing, SharingJob
from gputopo.sharing.predictor import SharingPredictor
from gputopo.sharing.speedup import GainMeasure, slowdown_percent
from gputopo_simulate.sharing.measured import MeasuredPairs

POLICIES: Final = ("never", "always", "thesis", "delta", "speed", "trial", "perfect")
"""Names of the policies; ``speed`` is what gputopo does."""


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """What the policies know, and when they share.

    Attributes:
        margin: least gain above which gputopo's policies and perfect knowledge share.
        known_share: share of the models whose pairs were measured before the run, 0 to 1.
        max_slowdown_percent: limit of each job; None without limit.
        seed: decides which models are known.
    """

    margin: float = 1.05
    known_share: float = 0.5
    max_slowdown_percent: int | None = None
    seed: int = 1


class SharingRule(Protocol):
    """A policy."""

    @property
    def overtakes(self) -> bool:
        """Whether jobs behind one that waits may start."""

    def gain(self, newcomer: str, present: str) -> float | None:
        """Return the gain by which possible pairs are compared; None if they do not share."""

    def ends(self, first: str, last: str) -> bool:
        """Take the measured speeds of a pair, and return whether its sharing ends."""


@dataclass(frozen=True)
class FixedRule:
    """A policy that does not learn: its gains are known before the run, and no sharing ends."""

    gains: dict[tuple[str, str], float]
    overtakes: bool = True

    def gain(self, newcomer: str, present: str) -> float | None:
        """Return the gain of a pair that may share."""
        return self.gains.get((newcomer, present))

    def ends(self, first: str, last: str) -> bool:
        """Let every sharing go on."""
        del first, last
        return False


@dataclass
class LearningRule:
    """gputopo's policy: it predicts from measured pairs, learns new ones and ends wrong sharings.

    Attributes:
        facts: pairs that were measured, by their two names.
        limit: limit for the slowdown of each job in percent; None without limit.
        tries_unknown: whether pairs with an unknown speed share until they are measured.
    """

    pairs: MeasuredPairs
    settings: SharingSettings
    facts: dict[tuple[str, ...], MeasuredSharing]
    limit: int | None
    tries_unknown: bool = False
    overtakes: bool = True
    _gains: dict[tuple[str, str], float | None] = field(default_factory=dict)
    _predictor: SharingPredictor | None = None

    def gain(self, newcomer: str, present: str) -> float | None:
        """Return the predicted gain of a pair that should share."""
        pair = (newcomer, present)
        if pair not in self._gains:
            self._gains[pair] = self._decided(newcomer, present)
        return self._gains[pair]

    def ends(self, first: str, last: str) -> bool:
        """Learn the pair and judge it by the rules of gputopo."""
        judgement = judge_sharing(
            [self._measured(first, last), self._measured(last, first)], self.settings.measure
        )
        fact = judgement.fact
        if fact is not None and fact.workloads not in self.facts:
            self.facts[fact.workloads] = fact
            self._predictor = None
            self._gains.clear()
        return judgement.verdict is SharingVerdict.END

    def _decided(self, newcomer: str, present: str) -> float | None:
        if self._predictor is None:
            models = self.pairs.models.values()
            self._predictor = SharingPredictor(self.facts.values(), models)
        own, other = (
            SharingJob(name, self.pairs.models[name], 1, self.limit) for name in (newcomer, present)
        )
        decision = decide_sharing(own, (other,), self._predictor, self.settings, mps_available=True)
        if decision.shares and decision.gain is not None:
            return decision.gain.by(self.settings.measure)
        tried = self.tries_unknown and decision.reason is SharingReason.UNKNOWN_SPEED
        return 1.0 if tried else None  # less than every known pair that shares

    def _measured(self, model: str, other: str) -> MeasuredJob:
        solo = self.pairs.rate(model)
        shared = solo * self.pairs.speeds[model, other]
        return MeasuredJob(model, model, solo, shared, 0, self.limit)


def policy_named(name: str, pairs: MeasuredPairs, settings: PolicySettings) -> SharingRule:
    """Return a new policy of :data:`POLICIES`.

    ``thesis`` shares if the measured delta is at least 1, and stops at the first job that it
    rejects: Gavel's data have no C, so its predictor cannot be simulated. ``delta`` and ``speed``
    are gputopo's policy with both measures of the gain. ``trial`` is ``speed``, but it also tries
    pairs whose speed is unknown.
    """
    limit = settings.max_slowdown_percent
    match name:
        case "never":
            return FixedRule({})
        case "always":
            return FixedRule(dict.fromkeys(pairs.speeds, 0.0))
        case "thesis":
            return FixedRule(_gains(pairs, GainMeasure.DELTA, 1.0, None), overtakes=False)
        case "perfect":
            gains = _gains(pairs, GainMeasure.SUMMED_SPEED, settings.margin, limit)
            return FixedRule(gains)
    measure = GainMeasure.DELTA if name == "delta" else GainMeasure.SUMMED_SPEED
    known = _known_models(pairs.models, settings)
    facts = {fact.workloads: fact for fact in pairs.facts(set(pairs.models) - known)}
    sharing = SharingSettings(settings.margin, measure, 2)
    return LearningRule(pairs, sharing, facts, limit, tries_unknown=name == "trial")


def _gains(
    pairs: MeasuredPairs, measure: GainMeasure, least: float, limit: int | None
) -> dict[tuple[str, str], float]:
    """Return the measured gains of the pairs that reach ``least`` within the limit of the jobs."""
    found: dict[tuple[str, str], float] = {}
    for pair in pairs.speeds:
        gain = pairs.gain(*pair).by(measure) or 0.0
        slowest = min(pairs.speeds[pair], pairs.speeds[pair[::-1]])
        if gain >= least and (limit is None or slowdown_percent(slowest) <= limit):
            found[pair] = gain
    return found


def _known_models(models: Iterable[str], settings: PolicySettings) -> set[str]:
    """Return the models whose pairs were measured before the run."""
    ordered = sorted(models)
    random.Random(settings.seed).shuffle(ordered)  # noqa: S311 - a simulation
    return set(ordered[: round(settings.known_share * len(ordered))])
