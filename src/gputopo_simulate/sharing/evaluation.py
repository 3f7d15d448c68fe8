"""Compare predicted with measured speeds of pairs: models are left out of the measured pairs.

The predictor then knows only the name, the family and the rate alone of a model. Two ways to leave
models out differ: one model with one batch size, while other batch sizes stay known, or a whole
family. The regret of a rule is the summed normalised speed that it loses against perfect knowledge,
on average over the pairs: a pair that shares gives its summed speed, one that does not gives 1.
"""

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean
from typing import Literal, NamedTuple, TypeAlias

from gputopo.sharing.estimate import SpeedEstimate, SpeedSource
from gputopo.sharing.predictor import SharingPredictor
from gputopo.sharing.speedup import GainMeasure, SharingGain, gain_of
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.sharing.measured import MeasuredPairs

LeftOut: TypeAlias = Literal["model", "family"]
PairSpeeds: TypeAlias = tuple[SpeedEstimate, SpeedEstimate]


class PredictedPair(NamedTuple):
    """A pair with its predicted and its measured speeds and gains."""

    predicted: PairSpeeds
    measured: tuple[float, float]
    gain: SharingGain
    true_gain: SharingGain

    @property
    def is_known(self) -> bool:
        """Whether a decision may use the prediction."""
        return all(speed.is_known for speed in self.predicted)


@dataclass(frozen=True, slots=True)
class PredictionFigures:
    """Errors of the predictions and decisions of pairs with a model that was left out.

    A decision by best guess also uses speeds that are unknown; gputopo does not share then.

    Attributes:
        pairs: number of predicted pairs.
        unknown: share of the pairs with an unknown speed.
        speed_error: mean absolute error of the normalised speed.
        delta_error: mean absolute error of delta.
        covered: share of the measured speeds in the 95 % intervals.
        wrong_delta: share of wrong decisions by delta, by best guess.
        wrong_speed: the same by the summed speed.
        wrong_known: the same of the pairs with known speeds.
        regret_delta: regret of decisions by delta, by best guess.
        regret_speed: the same by the summed speed.
        regret: the same if pairs with an unknown speed do not share.
    """

    pairs: int
    unknown: float
    speed_error: float
    delta_error: float
    covered: float
    wrong_delta: float
    wrong_speed: float
    wrong_known: float
    regret_delta: float
    regret_speed: float
    regret: float


@dataclass(frozen=True, slots=True)
class RuleFigures:
    """A rule that needs no prediction, on all measured pairs: share that it shares, and regret."""

    rule: str
    shares: float
    regret: float


def evaluate(
    pairs: MeasuredPairs,
    left_out: LeftOut,
    margin: float = 1.05,
    *,
    by_mean: bool = False,
    kept_pairs: int = 0,
    draws: int = 10,
) -> PredictionFigures:
    """Leave each model or each family out once, and predict its pairs.

    Args:
        pairs: the measured pairs.
        left_out: what is left out at once.
        margin: gain above which a pair shares.
        by_mean: predict the mean of the other pairs, for comparison.
        kept_pairs: number of pairs of what is left out that stay measured, at random.
        draws: number of draws of these pairs.

    Raises:
        SimulationError: if a model or family is in all pairs, so that none is left.
    """
    groups = (
        [frozenset({name}) for name in sorted(pairs.models)]
        if left_out == "model"
        else list(pairs.families().values())
    )
    for group in groups:
        if not pairs.facts(group):
            raise SimulationError(f"pairs: all have {min(group)} or its family; none is left")
    found = chain.from_iterable(
        _predicted_by_mean(pairs, group)
        if by_mean
        else _predicted(pairs, group, kept_pairs, draws if kept_pairs else 1)
        for group in groups
    )
    return _figures(list(found), margin)


def rules(pairs: MeasuredPairs, margin: float = 1.05) -> list[RuleFigures]:
    """Return the figures of rules that know everything or nothing."""
    gains = [pairs.gain(*pair) for pair in pairs.pairs()]
    named: dict[str, Callable[[SharingGain], bool]] = {
        "never share": lambda _gain: False,
        "always share": lambda _gain: True,
        "thesis: measured delta >= 1": lambda gain: (gain.delta or 0.0) >= 1,
        "measured delta > margin": lambda gain: (gain.delta or 0.0) > margin,
        "measured summed speed > margin": lambda gain: gain.summed_speed > margin,
    }
    return [
        RuleFigures(
            name,
            fmean(shares(gain) for gain in gains),
            fmean(_regret(gain, shares=shares(gain)) for gain in gains),
        )
        for name, shares in named.items()
    ]


def _predicted(
    pairs: MeasuredPairs, group: Collection[str], kept_pairs: int, draws: int
) -> Iterator[PredictedPair]:
    own = [pair for pair in pairs.pairs() if set(pair) & set(group)]
    for seed in range(draws):
        kept = set(random.Random(seed).sample(own, min(kept_pairs, len(own))))  # noqa: S311
        facts = [*pairs.facts(group), *(pairs.fact(*pair) for pair in sorted(kept))]
        predictor = SharingPredictor(facts, pairs.models.values())
        for pair in own:
            if pair not in kept:
                models = [pairs.models[name] for name in pair]
                first, second = predictor.predict(models).speeds
                yield _compared(pairs, pair, (first, second))


def _predicted_by_mean(pairs: MeasuredPairs, group: Collection[str]) -> Iterator[PredictedPair]:
    known = [speed for pair, speed in pairs.speeds.items() if not set(pair) & set(group)]
    mean = SpeedEstimate(fmean(known), 0.0, 1.0, SpeedSource.SIMILAR)
    for pair in pairs.pairs():
        if set(pair) & set(group):
            yield _compared(pairs, pair, (mean, mean))


def _compared(pairs: MeasuredPairs, pair: tuple[str, str], speeds: PairSpeeds) -> PredictedPair:
    rates = [pairs.rate(name) for name in pair]
    gain = gain_of([speed.value for speed in speeds], rates)
    measured = pairs.speeds[pair], pairs.speeds[pair[::-1]]
    return PredictedPair(speeds, measured, gain, pairs.gain(*pair))


def _figures(found: Sequence[PredictedPair], margin: float) -> PredictionFigures:
    speeds = [each for pair in found for each in zip(pair.predicted, pair.measured, strict=True)]
    known = [pair for pair in found if pair.is_known]
    delta, summed = GainMeasure.DELTA, GainMeasure.SUMMED_SPEED
    return PredictionFigures(
        pairs=len(found),
        unknown=1 - len(known) / len(found),
        speed_error=fmean(abs(speed.value - true) for speed, true in speeds),
        delta_error=fmean(
            abs((pair.gain.delta or 0.0) - (pair.true_gain.delta or 0.0)) for pair in found
        ),
        covered=fmean(speed.low <= true <= speed.high for speed, true in speeds),
        wrong_delta=_wrong(found, delta, margin),
        wrong_speed=_wrong(found, summed, margin),
        wrong_known=_wrong(known, summed, margin),
        regret_delta=fmean(_lost(pair, delta, margin) for pair in found),
        regret_speed=fmean(_lost(pair, summed, margin) for pair in found),
        regret=fmean(
            _lost(pair, summed, margin if pair.is_known else float("inf")) for pair in found
        ),
    )


def _wrong(found: Sequence[PredictedPair], measure: GainMeasure, margin: float) -> float:
    """Return the share of the pairs whose decision is another one with the measured gain."""
    decisions = (
        [_above(gain, measure, margin) for gain in (pair.gain, pair.true_gain)] for pair in found
    )
    wrong = [predicted != true for predicted, true in decisions]
    return fmean(wrong) if wrong else 0.0


def _lost(pair: PredictedPair, measure: GainMeasure, margin: float) -> float:
    return _regret(pair.true_gain, shares=_above(pair.gain, measure, margin))


def _regret(gain: SharingGain, *, shares: bool) -> float:
    return max(1.0, gain.summed_speed) - (gain.summed_speed if shares else 1.0)


def _above(gain: SharingGain, measure: GainMeasure, margin: float) -> bool:
    return (gain.by(measure) or 0.0) > margin
