"""How similar two workloads are, from their names, families and rates alone.

The similarity is 1 for the same workload, and at most 0.95 for others: 0.75 for the same family and
0.2 for any two workloads, both times ``exp(-d^2 / 2)``, where d is the difference of the logarithms
of the rates. So a batch size of twice another one (d about 0.5) keeps 88 % of the similarity.

The weights were chosen on Gavel's pairs and rounded. With a weight or the distance changed by a
factor of two, the mean error of a speed is between 0.071 and 0.088 (docs/studies/sharing.md).
"""

from math import exp, log
from typing import Final

from gputopo.sharing.model import SharingWorkload

SAME_FAMILY: Final = 0.75
ANY_WORKLOAD: Final = 0.2


def similarity(one: SharingWorkload, other: SharingWorkload) -> float:
    """Return the similarity of two workloads, 0 to 1.

    Workloads without a rate are similar only to themselves.
    """
    same = bool(one.name) and one.name == other.name
    if same:
        return 1.0
    if one.steps_per_second is None or other.steps_per_second is None:
        return 0.0
    distance = log(one.steps_per_second) - log(other.steps_per_second)
    family = bool(one.family) and one.family == other.family
    return exp(-(distance**2) / 2) * (ANY_WORKLOAD + SAME_FAMILY * family)
