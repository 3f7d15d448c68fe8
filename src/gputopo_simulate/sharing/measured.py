"""Measured speeds of pairs of models that share a GPU, for instance Gavel's on a V100.

``data/gavel_v100_pairs.csv`` has the pairs of Gavel (Narayanan et al., OSDI '20): 26 models with
their batch sizes, and 330 of their 351 pairs. The missing pairs are those of the largest models,
and are taken as pairs whose memory does not fit on the GPU.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from gputopo.runtime.messages import quoted
from gputopo.sharing.model import MeasuredSharing, SharingWorkload
from gputopo.sharing.speedup import SharingGain, gain_of
from gputopo_simulate.errors import SimulationError
from gputopo_simulate.tables import TableRow, rows

_COLUMNS: Final = ("model_a", "model_b", "solo_a", "solo_b", "shared_a", "shared_b")
_LEAST: Final = 1e-6


@dataclass(frozen=True)
class MeasuredPairs:
    """Measured models and pairs.

    Attributes:
        models: each model by name, with its steps per second alone.
        speeds: normalised speed of the first model beside the second, both orders of each pair.
    """

    models: Mapping[str, SharingWorkload]
    speeds: Mapping[tuple[str, str], float]

    def rate(self, model: str) -> float:
        """Return the steps per second of a model alone."""
        return self.models[model].steps_per_second or 0.0

    def fits(self, model: str, other: str) -> bool:
        """Return whether two models fit on one GPU, that is, were measured together."""
        return (model, other) in self.speeds

    def gain(self, model: str, other: str) -> SharingGain:
        """Return the measured gain of a pair that fits."""
        speeds = (self.speeds[model, other], self.speeds[other, model])
        return gain_of(speeds, (self.rate(model), self.rate(other)))

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Yield each measured pair once, sorted."""
        return (pair for pair in sorted(self.speeds) if pair[0] <= pair[1])

    def fact(self, model: str, other: str) -> MeasuredSharing:
        """Return the measured speeds of a pair as a fact."""
        speeds = self.speeds[model, other], self.speeds[other, model]
        return MeasuredSharing.of([(model, speeds[0]), (other, speeds[1])])

    def facts(self, without: Collection[str] = ()) -> list[MeasuredSharing]:
        """Return all pairs as facts, except those with one of these models."""
        return [
            self.fact(one, other)
            for one, other in self.pairs()
            if one not in without and other not in without
        ]

    def require(self, name: str, field: str) -> SharingWorkload:
        """Return a model by name.

        Raises:
            SimulationError: if it was not measured; the message names the field.
        """
        if name not in self.models:
            raise SimulationError(
                f"{field}: {quoted(name)} was not measured; known: {', '.join(sorted(self.models))}"
            )
        return self.models[name]

    def families(self) -> dict[str, frozenset[str]]:
        """Return the models of each family, sorted by family."""
        found: dict[str, set[str]] = {}
        for name, model in self.models.items():
            found.setdefault(model.family, set()).add(name)
        return {family: frozenset(found[family]) for family in sorted(found)}


def family_of(model: str) -> str:
    """Return the name of a model without its batch size.

    >>> family_of("ResNet-18 (batch size 64)")
    'ResNet-18'
    """
    return model.partition(" (")[0]


def parse_pairs(text: str) -> MeasuredPairs:
    """Return the pairs of a CSV table with the columns of ``gavel_v100_pairs.csv``.

    Raises:
        SimulationError: if the text is not such a table, a pair occurs twice with other values, or
            the rate of a model alone differs between two rows.
    """
    rates: dict[str, float] = {}
    speeds: dict[tuple[str, str], float] = {}
    for row in rows("pairs", text, _COLUMNS):
        models = row.text("model_a"), row.text("model_b")
        own = [_speed(row, side, model, rates) for side, model in zip("ab", models, strict=True)]
        for pair, speed in zip((models, models[::-1]), own, strict=True):
            if speeds.setdefault(pair, speed) != speed:
                raise row.error("model_b", f"second row for {quoted(models[0])} and this model")
    if not rates:
        raise SimulationError("pairs: the table is empty")
    models_found = {
        name: SharingWorkload(name, family_of(name), rate) for name, rate in rates.items()
    }
    return MeasuredPairs(models_found, speeds)


def _speed(row: TableRow, side: str, model: str, rates: dict[str, float]) -> float:
    """Return the normalised speed of one model of a row, and note its rate alone."""
    solo = row.number(f"solo_{side}", _LEAST)
    if rates.setdefault(model, solo) != solo:
        raise row.error(f"solo_{side}", f"{solo:g}; an earlier row has {rates[model]:g}")
    return row.number(f"shared_{side}", _LEAST) / solo
