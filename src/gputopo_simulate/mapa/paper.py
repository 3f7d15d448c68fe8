"""Results that the MAPA paper prints (Ranganath et al., SC '21), to compare runs with them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from gputopo.placement.model import PolicyName
from gputopo_simulate.mapa.summary import Quartiles, SpeedUp

TABLE_3: Final[Mapping[PolicyName, SpeedUp]] = MappingProxyType(
    {
        PolicyName.BASELINE: SpeedUp(1.0, 1.0, 1.0, 1.0, 1.0, 1.0),
        PolicyName.TOPO_AWARE: SpeedUp(1.002, 1.029, 1.385, 1.014, 1.075, 1.07),
        PolicyName.GREEDY: SpeedUp(0.997, 1.059, 1.519, 1.048, 1.319, 1.08),
        PolicyName.PRESERVE: SpeedUp(1.006, 1.057, 1.119, 1.124, 1.352, 1.12),
    }
)
"""Table 3: execution times and throughput of one run of 300 jobs on a real DGX-1 V100."""

QuartilesByPolicy = Mapping[PolicyName, Quartiles]
"""Quartiles of the effective bandwidth of sensitive jobs of two GPUs or more, by policy."""


@dataclass(frozen=True, slots=True)
class PaperClaim:
    """A statement of the paper about one of its figures, without numbers.

    Attributes:
        topology: name of the server in the catalogue.
        holds: returns whether the quartiles of a run agree with the statement. If the statement
            says that x *equals* or *is near* y, x must be at least 90 % of y.
    """

    source: str
    topology: str
    words: str
    holds: Callable[[QuartilesByPolicy], bool]


_NEAR: Final = 0.9
_UNAWARE: Final = (PolicyName.BASELINE, PolicyName.TOPO_AWARE)
_OTHERS: Final = (*_UNAWARE, PolicyName.GREEDY)


def _minimum_is_lower_quartile_of_others(by: QuartilesByPolicy) -> bool:
    return by[PolicyName.PRESERVE].minimum >= _NEAR * max(by[other].lower for other in _OTHERS)


def _lower_quartile_is_above_medians(by: QuartilesByPolicy) -> bool:
    return by[PolicyName.PRESERVE].lower > max(by[other].median for other in _UNAWARE)


def _median_is_upper_quartile_of_greedy(by: QuartilesByPolicy) -> bool:
    return by[PolicyName.PRESERVE].median >= _NEAR * by[PolicyName.GREEDY].upper


def _median_is_maximum_of_unaware(by: QuartilesByPolicy) -> bool:
    return by[PolicyName.PRESERVE].median >= _NEAR * max(by[other].maximum for other in _UNAWARE)


FIGURE_18: Final = (
    PaperClaim(
        "Fig. 18a",
        "torus-2d-16",
        "Preserve's 25th percentile of bandwidth is above the medians of Baseline and Topo-aware",
        _lower_quartile_is_above_medians,
    ),
    PaperClaim(
        "Fig. 18a",
        "torus-2d-16",
        "Preserve's minimum bandwidth equals the 25th percentile of each other policy",
        _minimum_is_lower_quartile_of_others,
    ),
    PaperClaim(
        "Fig. 18b",
        "cubemesh-16",
        "Preserve's minimum bandwidth equals the 25th percentile of each other policy",
        _minimum_is_lower_quartile_of_others,
    ),
    PaperClaim(
        "Fig. 18b",
        "cubemesh-16",
        "Preserve's median bandwidth is near Greedy's 75th percentile",
        _median_is_upper_quartile_of_greedy,
    ),
    PaperClaim(
        "Fig. 18b",
        "cubemesh-16",
        "Preserve's median bandwidth is near the maxima of Baseline and Topo-aware",
        _median_is_maximum_of_unaware,
    ),
)
"""Statements of section 5.3 about figure 18."""
