"""Facts directly from samples, for tests."""

from collections.abc import Iterable

from gputopo.api.profile import LinkFact, NeighbourFact, Sample, ScalingFact
from gputopo.profiles import links, neighbours, scaling
from gputopo.profiles.comparable import UNKNOWN, Demands
from gputopo.profiles.ratefit import rate_fits


def link_facts(samples: Iterable[Sample], demands: Demands = UNKNOWN) -> list[LinkFact]:
    return links.link_facts(rate_fits(samples, demands))


def neighbour_facts(samples: Iterable[Sample], demands: Demands = UNKNOWN) -> list[NeighbourFact]:
    return neighbours.neighbour_facts(rate_fits(samples, demands))


def scaling_facts(samples: Iterable[Sample], demands: Demands = UNKNOWN) -> list[ScalingFact]:
    return scaling.scaling_facts(rate_fits(samples, demands))
