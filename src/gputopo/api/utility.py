"""Utilities of placements in annotations and in the status of GPUJobs, in per mille."""

from typing import Annotated, Self

from pydantic import Field

from gputopo.api.model import ApiModel
from gputopo.utility.utility import PlacementUtility, permille

UtilityPercent = Annotated[int, Field(ge=0, le=100)]
Permille = Annotated[int, Field(ge=0, le=1000)]


class UtilityFigures(ApiModel):
    """The utility of a placement and its terms, in per mille; 1000 is ideal.

    Attributes:
        utility: utility for the cluster: the weighted mean of the three terms.
        job_utility: utility for the job, which is compared with ``minUtilityPercent``.
        suffered: the term of the slowdown that the job itself suffers; a part of ``job_utility``.
    """

    utility: Annotated[Permille, Field(alias="utilityPermille")]
    job_utility: Annotated[Permille, Field(alias="jobUtilityPermille")]
    communication: Annotated[Permille, Field(alias="communicationPermille")]
    interference: Annotated[Permille, Field(alias="interferencePermille")]
    suffered: Annotated[Permille, Field(alias="sufferedPermille")]
    fragmentation: Annotated[Permille, Field(alias="fragmentationPermille")]

    @classmethod
    def of(cls, found: PlacementUtility) -> Self:
        """Return the figures of a computed utility."""
        costs = found.costs
        return cls(
            utility=permille(found.value),
            job_utility=permille(found.job_value),
            communication=round(1000 * costs.communication.term),
            interference=round(1000 * costs.interference.term),
            suffered=round(1000 * costs.suffered.term),
            fragmentation=round(1000 * costs.fragmentation.term),
        )

    def __str__(self) -> str:
        return (
            f"{as_number(self.utility)} (communication {as_number(self.communication)}, "
            f"interference {as_number(self.interference)}, "
            f"fragmentation {as_number(self.fragmentation)})"
        )


def as_number(permille_value: int) -> str:
    """Return a value in per mille as a number from 0 to 1.

    >>> as_number(871)
    '0.871'
    """
    return f"{permille_value / 1000:.3f}"
