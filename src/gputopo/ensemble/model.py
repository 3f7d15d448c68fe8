"""The types of an ensemble: its members, the GPUs that it may use, and where a member runs.

An *ensemble* is a set of models that are trained on the same data. Rates are in items per second;
an item is what the user counts, for instance an image. All members must count the same items,
because their rates are compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf

from gputopo.ensemble.rates import EnsembleError, MemberRates


class PaceMeasure(StrEnum):
    """What is about equal for the members of a flotilla.

    RATE: items per second, as in the paper. Members that share their preprocessing need this.
    END: the time that is left. A member with twice the items left gets twice the rate.
    """

    RATE = "Rate"
    END = "End"


class UnknownRates(StrEnum):
    """What happens to members without rates: they get one GPU each, or are profiled first."""

    ONE_GPU = "OneGPU"
    PROFILE = "Profile"


@dataclass(frozen=True, slots=True)
class EnsembleMember:
    """A model of an ensemble that has not ended.

    Attributes:
        name: unique in the ensemble.
        rates: rate by number of GPUs; None if nothing was measured.
        items_left: items that it still has to process; None if this is unknown, for instance
            because it is trained until it converges.
        max_gpus: limit of this member; None without limit.
    """

    name: str
    rates: MemberRates | None = None
    items_left: float | None = None
    max_gpus: int | None = None

    def __post_init__(self) -> None:
        if self.items_left is not None and not 0 <= self.items_left < inf:
            raise EnsembleError(
                f"items_left: {self.items_left} of {self.name!r}; must be a number of at least 0"
            )
        if self.max_gpus is not None and self.max_gpus < 1:
            raise EnsembleError(f"max_gpus: {self.max_gpus} of {self.name!r}; must be at least 1")


@dataclass(frozen=True, slots=True)
class NodeGpuCount:
    """A node and the number of its GPUs that the ensemble can use.

    The policy of the placement chooses the GPUs inside the node when a pod starts.
    """

    name: str
    gpus: int

    def __post_init__(self) -> None:
        if self.gpus < 0:
            raise EnsembleError(f"gpus: {self.gpus} of node {self.name!r}; must be at least 0")


@dataclass(frozen=True, slots=True)
class MemberPlacement:
    """The nodes of a member that runs or starts, each with a number of GPUs above 0."""

    member: str
    nodes: tuple[NodeGpuCount, ...]

    @property
    def gpus(self) -> int:
        """The number of GPUs on all nodes."""
        return sum(node.gpus for node in self.nodes)


@dataclass(frozen=True, slots=True)
class EnsembleSettings:
    """How an ensemble is planned.

    Attributes:
        max_gpus: GPUs that all members use together; None without limit.
        max_gpus_per_member: limit of each member; None without limit.
        one_node: whether all GPUs of a member must be on one node. This is so until gputopo has
            jobs of several pods.
        spread: how far the rate of a member may be below the reference rate of its flotilla, from 0
            to 1. One third is the least value with which a member that gets enough GPUs never has
            to wait: between m and m + 1 GPUs, the nearer rate is at most a third too low.
        pace: what is about equal for the members of a flotilla.
        reference_parts: a plan is made with each of these parts of the reference, and that which
            ends first is chosen, the first one if none has a known end. The paper has only 1.
        lockstep: whether members that train together wait for each other, as with a preprocessor
            that prepares each item once for all of them. Members then get the fewest GPUs with
            which none is slower than the slowest one.
        unknown: what happens to members without rates.
        rate_difference: a measured rate that differs from the planned one by more than this part
            of it is wrong.
        restarts: whether members can be restarted from a checkpoint with other numbers of GPUs.
        restart_seconds: time that a restart costs.
        least_gain: members are restarted only if the ensemble then ends earlier by more than this
            part of the time that is left.
    """

    max_gpus: int | None = None
    max_gpus_per_member: int | None = None
    one_node: bool = True
    spread: float = 1 / 3
    pace: PaceMeasure = PaceMeasure.RATE
    reference_parts: tuple[float, ...] = (1.0, 0.5, 0.25)
    lockstep: bool = False
    unknown: UnknownRates = UnknownRates.ONE_GPU
    rate_difference: float = 0.2
    restarts: bool = False
    restart_seconds: float = 120.0
    least_gain: float = 0.05

    def __post_init__(self) -> None:
        for field in ("max_gpus", "max_gpus_per_member"):
            limit = getattr(self, field)
            if limit is not None and limit < 1:
                raise EnsembleError(f"{field}: {limit}; must be at least 1")
        for field, highest in (("spread", 1.0), ("least_gain", 1.0), ("rate_difference", inf)):
            if not 0 <= getattr(self, field) <= highest:
                raise EnsembleError(
                    f"{field}: {getattr(self, field)}; must be a number of at least 0"
                    + (" and at most 1" if highest == 1 else "")
                )
        if not self.reference_parts or not all(0 < part < inf for part in self.reference_parts):
            raise EnsembleError(
                f"reference_parts: {self.reference_parts}; must be one or more numbers above 0"
            )
        if not 0 <= self.restart_seconds < inf:
            raise EnsembleError(
                f"restart_seconds: {self.restart_seconds}; must be a number of at least 0"
            )


def check_names(field: str, names: Sequence[str]) -> None:
    """Check that names are unique.

    Raises:
        EnsembleError: if a name occurs twice; the message names the field and the name.
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise EnsembleError(f"{field}: {name!r} is listed twice; names must be unique")
        seen.add(name)
